"""Verbs on what flights wait for besides a slot: money, a person's word, a runner that could not work; and on costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tower.control import views
from tower.control.itineraries import view_of
from tower.control.rights import require_person
from tower.core import costs
from tower.core.callers import Caller
from tower.core.costs import MICROS
from tower.core.errors import ConflictError, InvalidError, NotFoundError
from tower.core.records import Event, Flight
from tower.core.states import FlightState, HeldReason, Outcome
from tower.engine import circuits, joins, money
from tower.engine.tower import Tower
from tower.store import events, flights, itineraries, ledger, lookup, spending
from tower.store.database import Connection


@dataclass(frozen=True, slots=True)
class MoneyVerbs:
    """What people say of holds, and ask of costs."""

    tower: Tower

    async def refuel(self, caller: Caller, text: str, usd: object) -> views.View:
        """Add dollars to what a chain may spend, and let go on what it can pay for now.

        Raises `InvalidError` for no amount above 0, `ConflictError` for a chain that was cancelled.
        """
        require_person(caller, "refuel an itinerary")
        amount, tower = _amount(usd), self.tower

        def transaction(connection: Connection) -> views.View:
            _, identity = lookup.find(connection, text, kind="itinerary")
            chain = itineraries.get(connection, identity)
            if chain is None or chain.cancelled_at is not None:
                raise ConflictError(
                    "chain-cancelled",
                    f"cannot refuel itinerary {identity}: it was cancelled",
                    "send anew what is still wanted",
                )
            ledger.refuel(connection, identity, amount)
            told = tower.event("itinerary.refueled", itinerary=identity, by=caller.name, usd=amount / MICROS)
            events.append(connection, told)
            money.release_fuel(tower, connection, identity)
            return view_of(connection, itineraries.get(connection, identity) or chain)

        view = await tower.store.write(transaction)
        tower.wake()
        return view

    async def approve(self, caller: Caller, text: str, *, note: str | None) -> views.View:
        """Let a flight go to an agent that is guarded. Raises `ConflictError` for one that waits for nothing such."""
        require_person(caller, "approve a flight")
        tower = self.tower

        def transaction(connection: Connection) -> Flight:
            flight = _guarded(connection, text, "approve")
            flights.move(
                connection,
                flight.id,
                FlightState.QUEUED,
                approved_at=tower.clock(),
                approved_by=caller.name,
                approval_note=note,
            )
            events.append(connection, _told(tower, "flight.approved", flight, by=caller.name))
            return flights.get(connection, flight.id) or flight

        flight = await tower.store.write(transaction)
        tower.wake()
        return views.flight(flight)

    async def reject(self, caller: Caller, text: str, *, why: str) -> views.View:
        """Refuse a flight to an agent that is guarded, and tell the chain that sent it. Raises `ConflictError`."""
        require_person(caller, "reject a flight")
        tower = self.tower

        def transaction(connection: Connection) -> Flight:
            flight = _guarded(connection, text, "reject")
            flights.move(
                connection,
                flight.id,
                FlightState.REFUSED,
                reason=f"{caller.name} rejected it: {why}",
                outcome=Outcome.REFUSED,
                ended_at=tower.clock(),
            )
            events.append(connection, _told(tower, "flight.rejected", flight, by=caller.name, why=why))
            chain = itineraries.get(connection, flight.itinerary)
            if chain is not None and chain.parent is not None and flight.sender.kind == "agent":
                told = _told(tower, "flight.rejected", flight, by=caller.name, why=why, chain=chain.parent)
                events.append(connection, told)
            joins.look(tower, connection, flight.itinerary)
            return flights.get(connection, flight.id) or flight

        flight = await tower.store.write(transaction)
        tower.wake()
        return views.flight(flight)

    async def reset_runner(self, caller: Caller, name: str) -> views.View:
        """Let a runner that could not work be used again at once. Raises `NotFoundError`."""
        require_person(caller, "reset a runner")
        tower = self.tower

        def transaction(connection: Connection) -> bool:
            return circuits.reset(tower, connection, name, by=caller.name)

        was_open = await tower.store.write(transaction)
        if not was_open and name not in tower.factory.runners:
            known = ", ".join(sorted(tower.factory.runners)) or "none"
            raise NotFoundError("unknown-runner", f"cannot find a runner called {name[:80]!r}", f"there are: {known}")
        tower.wake()
        return {"runner": name, "was_open": was_open}

    async def costs(self, caller: Caller, *, since: float | None, until: float | None) -> views.View:
        """What runs cost that ended within a time: together, by agent, model, pipeline and day; and the Reserve."""
        require_person(caller, "show costs")
        tower = self.tower
        return await tower.store.read(lambda connection: costs_within(tower, connection, since, until))


def costs_within(tower: Tower, connection: Connection, since: float | None, until: float | None) -> views.View:
    """What runs cost that ended from `since` to `until` (seconds since the epoch)."""
    reserve = tower.factory.reserve
    tables = {by: spending.grouped(connection, by, since=since, until=until) for by in spending.GROUPS}
    window = ledger.window(connection, now=tower.clock(), seconds=reserve.window_sec)
    return {
        "since": views.moment(since),
        "until": views.moment(until),
        "total": _sum(spending.total(connection, since=since, until=until)),
        "by": {by: [{"name": name, **_sum(rows)} for name, rows in groups] for by, groups in tables.items()},
        "reserve": views.reserve(reserve, window),
    }


def _sum(rows: list[spending.Part]) -> dict[str, Any]:
    """Some runs together: a part for each source."""
    known = sum(part.cost for part in rows)
    sources = [part.source for part in rows for _ in range(part.runs)]
    return {
        "runs": len(sources),
        "unreported": sum(part.runs for part in rows if part.source == costs.CostSource.UNREPORTED),
        "cost": costs.text(known, sources),
        "cost_usd": known / MICROS if any(part.is_known for part in rows) else None,
        "charged_usd": sum(part.charged for part in rows) / MICROS,
        "source": costs.weakest(sources),
    }


def _amount(usd: object) -> int:
    try:
        amount = costs.parse(usd)
    except ValueError as error:
        raise InvalidError(
            "bad-amount", f"cannot take {usd!r} for dollars: it {error}", "give dollars: 5.00"
        ) from error
    if amount == 0:
        raise InvalidError("bad-amount", "cannot refuel with nothing", "give more than 0 dollars")
    return amount


def _guarded(connection: Connection, text: str, verb: str) -> Flight:
    _, identity = lookup.find(connection, text, kind="flight")
    flight = flights.get(connection, identity)
    assert flight is not None  # noqa: S101 (found in the same transaction)
    if flight.state is not FlightState.HELD or flight.held_reason is not HeldReason.APPROVAL:
        state = f"{flight.state}, {flight.held_reason}" if flight.held_reason else str(flight.state)
        raise ConflictError(
            "not-guarded",
            f"cannot {verb} flight {identity}: it does not wait for approval ({state})",
            "`tower queue` shows what flights wait for",
        )
    return flight


def _told(
    tower: Tower, type_: str, flight: Flight, *, by: str, chain: str | None = None, why: str | None = None
) -> Event:
    return tower.event(
        type_, flight=flight.id, itinerary=chain or flight.itinerary, agent=flight.receiver, by=by, why=why
    )
