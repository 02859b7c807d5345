"""Verbs on flights (messages): send, list, show, cancel."""

from __future__ import annotations

from dataclasses import dataclass

from tower.control import sending, views
from tower.control.cancelling import end_waiting
from tower.control.rights import require_person
from tower.control.runs import views_of
from tower.core.callers import Caller
from tower.core.errors import ConflictError
from tower.core.records import Flight
from tower.core.states import FlightState
from tower.engine import again, conduct, joins
from tower.engine.looking import explain_waiting
from tower.engine.tower import Tower
from tower.store import flights, lookup, runs
from tower.store.database import Connection


@dataclass(frozen=True, slots=True)
class FlightVerbs:
    """What can be done with flights."""

    tower: Tower

    async def send(self, caller: Caller, request: sending.Request) -> views.View:
        """Send a flight; answered when it is on disk. See `sending.send` for what is refused."""
        sent = await sending.send(self.tower, caller, request)
        return {
            "flight": views.flight(sent.flight),
            "itinerary": sent.flight.itinerary,
            "duplicate": sent.duplicate,
        }

    async def listing(
        self, caller: Caller, *, waiting: bool, state: FlightState | None, agent: str | None, limit: int
    ) -> views.View:
        """Flights: those that wait, each with what for; or by state and receiver, newest first."""
        require_person(caller, "list flights")
        if not waiting:
            found = await self.tower.store.read(
                lambda connection: flights.listing(connection, state=state, receiver=agent, limit=limit)
            )
            return {"flights": [views.flight(one) for one in found]}
        found_waiting = await explain_waiting(self.tower, limit)
        chosen = [(one, words) for one, words in found_waiting if agent in (None, one.receiver)]
        return {"flights": [views.flight(one, waits_for=words) for one, words in chosen]}

    async def show(self, caller: Caller, text: str) -> views.View:
        """One flight with its runs."""
        require_person(caller, "show a flight")

        def read(connection: Connection) -> tuple[Flight, list[views.View]]:
            _, identity = lookup.find(connection, text, kind="flight")
            flight = flights.get(connection, identity)
            assert flight is not None  # noqa: S101 (found in the same view of the database)
            return flight, views_of(connection, runs.of_flight(connection, identity), self.tower.clock())

        flight, told = await self.tower.store.read(read)
        waits = flight.state in (FlightState.QUEUED, FlightState.PARKED)
        words = await self._words_for(flight) if waits else None
        return views.flight(flight, waits_for=words) | {"runs": told}

    async def cancel(self, caller: Caller, text: str) -> views.View:
        """End a flight: what waits is cancelled, a running one's run is asked to end. Ended ones are refused."""
        require_person(caller, "cancel a flight")
        tower = self.tower

        def cancel_waiting(connection: Connection) -> Flight:
            _, identity = lookup.find(connection, text, kind="flight")
            found = flights.get(connection, identity)
            assert found is not None  # noqa: S101 (found in the same transaction)
            if end_waiting(tower, connection, found, person=caller.name):
                joins.look(tower, connection, found.itinerary)
            return flights.get(connection, identity) or found

        flight = await tower.store.write(cancel_waiting)
        if flight.state is FlightState.CANCELLED:
            tower.wake()
        else:
            alive = [live for live in tower.live.values() if flight.id in live.run.flights]
            if not alive:
                raise ConflictError(
                    "over", f"cannot cancel flight {flight.id}: it is over ({flight.state})", "there is nothing to end"
                )
            for live in alive:
                await conduct.stop(tower, live, "cancelled")
        return views.flight(flight)

    async def retry(self, caller: Caller, text: str, *, note: str | None) -> views.View:
        """Do a flight again that is over and did not succeed."""
        require_person(caller, "retry a flight")
        _, identity = await self.tower.store.read(lambda connection: lookup.find(connection, text, kind="flight"))
        return views.flight(await again.retry(self.tower, identity, person=caller.name, note=note))

    async def _words_for(self, flight: Flight) -> str | None:
        """What a queued flight waits for, as far as it is among the first of the queue."""
        return next((words for one, words in await explain_waiting(self.tower, 1000) if one.id == flight.id), None)
