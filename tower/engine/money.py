"""Fuel and Reserve in the engine's transactions: what a claim sets aside, what an end charges, which holds that frees.

Everything here runs inside the transaction that it belongs to, so that no restart finds a sum without its run. The
sums are the store's (`ledger`), the decisions `core.budget`'s and `core.checks`'.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from tower.core import budget, costs
from tower.core.budget import Books, Window
from tower.core.factory import Factory
from tower.core.records import Flight, Run
from tower.core.states import FlightState, HeldReason
from tower.engine.tower import Tower
from tower.store import events, flights, itineraries, ledger
from tower.store.database import Connection

LOOKED_AT: Final = 256
"""Flights held for the Reserve that are looked at when it has room: more than could start at once."""


def books(factory: Factory, connection: Connection, agents: Iterable[str], now: float) -> Books:
    """What admission knows of money, for flights to these agents."""
    estimates = {name: _estimate(factory, connection, name) for name in agents}
    dearest = max(estimates.values(), default=0)
    return Books(estimates=estimates, window=window(factory, connection, now, wanted=dearest))


def window(factory: Factory, connection: Connection, now: float, *, wanted: int = 0) -> Window:
    """The Reserve's window; with what leaves it when, if `wanted` more might not fit."""
    limit, seconds = factory.reserve.fuel, factory.reserve.window_sec
    found = ledger.window(connection, now=now, seconds=seconds)
    # As many as can start in one round; without a limit nothing is ever waited for.
    if limit == 0 or found.total + wanted * factory.settings.max_concurrent_runs <= limit:
        return found
    return replace(found, leaves=ledger.leaves(connection, now=now, seconds=seconds))


def can_pay(factory: Factory, connection: Connection, itinerary: str, expected: int, now: float) -> bool:
    """Whether Fuel and Reserve still have room for a run that is about to be claimed."""
    chain = itineraries.get(connection, itinerary)
    if chain is None or chain.fuel_spent + chain.fuel_reserved + expected > chain.fuel_limit:
        return False
    limit = factory.reserve.fuel
    if limit == 0:
        return True
    found = ledger.window(connection, now=now, seconds=factory.reserve.window_sec)
    return found.total + expected <= limit


def set_aside(tower: Tower, connection: Connection, run: Run) -> None:
    """Reserve for a run that is claimed in this transaction."""
    ledger.set_aside(connection, run.itinerary, run.reserved)
    tell_marks(tower, connection)


def see(tower: Tower, connection: Connection, run: Run, amount: int) -> bool:
    """A run under way was seen to have cost `amount`; returns whether its chain is past its Fuel by that."""
    if not ledger.raise_to(connection, run.id, amount):
        return False
    _tell_overshoot(tower, connection, run.itinerary)
    tell_marks(tower, connection)
    chain = itineraries.get(connection, run.itinerary)
    return chain is not None and chain.fuel_spent + chain.fuel_reserved > chain.fuel_limit


def settle(tower: Tower, connection: Connection, run: Run, charged: int) -> None:
    """Give back what was set aside for a run that is over, and charge it; let go on what there is room for now."""
    ledger.settle(connection, run.id, charged)
    _tell_overshoot(tower, connection, run.itinerary)
    tell_marks(tower, connection)
    release_fuel(tower, connection, run.itinerary)
    release_reserve(tower, connection)


def release_fuel(tower: Tower, connection: Connection, itinerary: str) -> None:
    """Queue the flights of a chain again that were held for its Fuel and that it can pay for now."""
    held = ledger.held_for_fuel(connection, itinerary)
    chain = itineraries.get(connection, itinerary) if held else None
    if chain is None:
        return
    room = chain.fuel_limit - chain.fuel_spent - chain.fuel_reserved
    for flight in held:
        expected = _estimate(tower.factory, connection, flight.receiver)
        if expected <= room:
            room -= expected
            queue_again(tower, connection, flight)


def release_reserve(tower: Tower, connection: Connection) -> None:
    """Queue the flights again that were held for the Reserve and that fit now; the others know when they will."""
    held = ledger.first_held(connection, HeldReason.RESERVE, LOOKED_AT)
    if not held:
        return
    factory, now = tower.factory, tower.clock()
    limit = factory.reserve.fuel
    found = window(factory, connection, now, wanted=limit)
    taken = 0
    for flight in held:
        expected = _estimate(factory, connection, flight.receiver)
        if limit == 0 or found.total + taken + expected <= limit:
            taken += expected
            queue_again(tower, connection, flight)
        elif flight.release_at is not None and flight.release_at <= now:
            later = found.frees_at(limit, taken + expected)
            flights.delay(connection, flight.id, later)


def queue_again(tower: Tower, connection: Connection, flight: Flight) -> None:
    """Release a held flight: whether it may start is decided anew."""
    if not flights.move(connection, flight.id, FlightState.QUEUED):
        return
    told = tower.event(
        "flight.released",
        flight=flight.id,
        itinerary=flight.itinerary,
        agent=flight.receiver,
        hold=flight.held_reason,
    )
    events.append(connection, told)


def _estimate(factory: Factory, connection: Connection, name: str) -> int:
    agent = factory.agents.get(name)
    if agent is None:
        return factory.settings.reserve
    known = [] if agent.reserve is not None else ledger.history(connection, name)
    return budget.estimate(agent, factory.settings, known)


def _tell_overshoot(tower: Tower, connection: Connection, itinerary: str) -> None:
    if ledger.note_overshoot(connection, itinerary, tower.clock()):
        events.append(connection, tower.event("itinerary.overshot", itinerary=itinerary))


def tell_marks(tower: Tower, connection: Connection) -> None:
    """An event when 80 and 100 percent of the Reserve are used, once until clearly less is."""
    reserve = tower.factory.reserve
    found = ledger.window(connection, now=tower.clock(), seconds=reserve.window_sec)
    told = ledger.marks(connection)
    bites = bool(ledger.first_held(connection, HeldReason.RESERVE, 1))
    holding = budget.marks(reserve.fuel, found.total, told, bites=bites)
    for mark in sorted(holding - told):
        used, limit = (amount / costs.MICROS for amount in (found.total, reserve.fuel))
        events.append(connection, tower.event("reserve.used", percent=mark, used_usd=used, limit_usd=limit))
    if holding != told:
        ledger.set_marks(connection, holding)
