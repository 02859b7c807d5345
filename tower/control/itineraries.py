"""Verbs on itineraries (chains): list, show (and wait for news), release a join, cancel."""

from __future__ import annotations

from dataclasses import dataclass

import anyio

from tower.control import views
from tower.control.cancelling import end_waiting
from tower.control.rights import require_person
from tower.control.runs import views_of
from tower.core.callers import Caller
from tower.core.chain import state_of
from tower.core.records import Itinerary
from tower.engine import conduct, joins
from tower.engine.tower import Tower
from tower.store import accounts, events, flights, itineraries, lookup, runs
from tower.store.database import Connection


@dataclass(frozen=True, slots=True)
class ItineraryVerbs:
    """What can be done with chains."""

    tower: Tower

    async def listing(self, caller: Caller, *, limit: int) -> views.View:
        """The chains that began last, newest first."""
        require_person(caller, "list itineraries")
        found = await self.tower.store.read(
            lambda connection: [
                view_of(connection, itinerary) for itinerary in itineraries.newest(connection, limit=limit)
            ]
        )
        return {"itineraries": found}

    async def show(self, caller: Caller, text: str, *, wait: float = 0.0, after: int = 0) -> views.View:
        """A chain as a story: its flights and runs in order.

        With `wait` (seconds) it answers as soon as an event newer than `after` concerns the chain, or when the time
        is up; `seq` in the answer is the newest event's.
        """
        require_person(caller, "show an itinerary")
        _, identity = await self.tower.store.read(lambda connection: lookup.find(connection, text, kind="itinerary"))
        with self.tower.bus.listening(identity) as news:
            story = await self.tower.store.read(lambda connection: self._story(connection, identity))
            if wait <= 0 or story["seq"] > after:
                return story
            with anyio.move_on_after(wait):
                await news.wait()
        return await self.tower.store.read(lambda connection: self._story(connection, identity))

    async def cancel(self, caller: Caller, text: str) -> views.View:
        """End a chain: its waiting flights are cancelled, its running runs are asked to end."""
        require_person(caller, "cancel an itinerary")
        tower = self.tower

        def cancel_waiting(connection: Connection) -> str:
            _, identity = lookup.find(connection, text, kind="itinerary")
            itineraries.cancel(connection, identity, tower.clock())
            for flight in flights.of_itinerary(connection, identity):
                end_waiting(tower, connection, flight, person=caller.name)
            joins.look(tower, connection, identity)
            events.append(connection, tower.event("itinerary.cancelled", itinerary=identity, by=caller.name))
            return identity

        identity = await tower.store.write(cancel_waiting)
        await conduct.stop_every(tower, "cancelled", itinerary=identity)
        return await tower.store.read(lambda connection: self._story(connection, identity))

    async def release(self, caller: Caller, text: str, agent: str) -> views.View:
        """Wake a receiver with what is parked at its join, or was given up with it. Raises `ConflictError`."""
        require_person(caller, "release a join")
        tower = self.tower

        def wake(connection: Connection) -> str:
            _, identity = lookup.find(connection, text, kind="itinerary")
            joins.release(tower, connection, identity, agent, person=caller.name)
            return identity

        identity = await tower.store.write(wake)
        tower.wake()
        return await tower.store.read(lambda connection: self._story(connection, identity))

    def _story(self, connection: Connection, identity: str) -> views.View:
        itinerary = itineraries.get(connection, identity)
        assert itinerary is not None  # noqa: S101 (found before, and never deleted)
        barriers = joins.barriers_of(self.tower.factory, connection, itinerary)
        told = runs.of_itinerary(connection, identity)
        return view_of(connection, itinerary) | {
            "flights": [
                views.flight(it, waits_for=joins.words_for(it, barriers))
                for it in flights.of_itinerary(connection, identity)
            ],
            "joins": [views.join(barrier) for _, barrier in sorted(barriers.items())],
            "runs": views_of(connection, told, self.tower.clock()),
            "help": [views.help_request(one) for one in accounts.open_of_itinerary(connection, identity)],
            "seq": events.last_seq(connection, itinerary=identity),
        }


def view_of(connection: Connection, itinerary: Itinerary) -> views.View:
    """A chain with its state, derived from its facts, and with what it cost."""
    state = state_of(itineraries.facts(connection, itinerary.id))
    return views.itinerary(itinerary, state, itineraries.costs(connection, itinerary.id))
