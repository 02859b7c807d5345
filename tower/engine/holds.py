"""Releasing holds whose cause may have gone: after a reload, after a start, when time or space comes back.

A released flight is queued again; whether it may start is decided anew, so releasing too often does no harm. Holds for
money and for runners that cannot work are released by `money` and `circuits`, which know for how many there is room.
"""

from __future__ import annotations

from typing import Final

import anyio

from tower.core.errors import BusyError
from tower.core.records import Flight
from tower.core.states import FlightState, HeldReason
from tower.engine import circuits, joins, money
from tower.engine.preview import is_wanting
from tower.engine.tower import Tower, log
from tower.store import circuits as stored_circuits
from tower.store import flights
from tower.store.database import Connection

LOOK_SEC: Final = 5.0
"""How often holds that end by themselves are looked at."""

BY_CONFIGURATION: Final = (HeldReason.AGENT, HeldReason.ENVIRONMENT, HeldReason.OVER_BUDGET)
"""What a new generation, or a restart with other variables, may have mended."""


async def release(tower: Tower, *reasons: HeldReason) -> int:
    """Queue the flights held for these reasons; returns how many."""

    def transaction(connection: Connection) -> int:
        return _queue_again(tower, connection, [flight.id for flight in flights.held(connection, *reasons)])

    released = await tower.store.write(transaction)
    if released:
        tower.wake()
    return released


async def after_reload(tower: Tower) -> None:
    """Let go on what a new generation has mended: money that was raised, agents that nobody guards any more."""
    await release(tower, *BY_CONFIGURATION)

    def transaction(connection: Connection) -> None:
        for itinerary in {flight.itinerary for flight in flights.held(connection, HeldReason.FUEL)}:
            money.release_fuel(tower, connection, itinerary)
        money.release_reserve(tower, connection)
        guarded = {agent.name for agent in tower.factory.agents.values() if agent.approve}
        free = [one.id for one in flights.held(connection, HeldReason.APPROVAL) if one.receiver not in guarded]
        _queue_again(tower, connection, free)

    await tower.store.write(transaction)
    tower.wake()


async def watch(tower: Tower) -> None:
    """Release for ever what waits for a time, for disk space, or for a cause that went away unseen."""
    while True:
        await anyio.sleep(LOOK_SEC)
        if tower.ballast.is_thrown_off and tower.ballast.take():
            log.info("disk.room-again")
        try:
            await _look(tower)
            await joins.look_at_due(tower)
        except BusyError as error:
            log.warning("holds.failed", error=str(error))


async def _look(tower: Tower) -> None:
    now = tower.clock()

    def read(connection: Connection) -> tuple[list[Flight], bool, bool]:
        found = stored_circuits.every(connection)
        tried = any(one.probe is None and not one.is_open(now) for one in found.values())
        walled = {agent.name for agent in tower.factory.agents.values() if agent.runner in found}
        held = flights.may_be_released(connection, now)
        mine = [one for one in held if one.held_reason is not HeldReason.QUOTA or one.receiver not in walled]
        return mine, any(one.held_reason is HeldReason.RESERVE for one in held), tried

    held, reserve, tried = await tower.store.read(read)
    free = tower.free_bytes()
    room = free is None or free >= tower.factory.settings.min_free_bytes
    due = [flight.id for flight in held if _is_over(tower, flight, room)]
    if not (due or reserve or tried):
        return

    def transaction(connection: Connection) -> None:
        _queue_again(tower, connection, due)
        money.release_reserve(tower, connection)
        circuits.offer_probes(tower, connection)

    await tower.store.write(transaction)
    tower.wake()


def _is_over(tower: Tower, flight: Flight, room: bool) -> bool:
    """Whether what a held flight waited for is there, as far as nobody else says."""
    match flight.held_reason:
        case HeldReason.RESERVE:
            return False
        case HeldReason.DISK:
            return room
        case HeldReason.GROUND_STOP:
            return tower.ground_stop is None
        case HeldReason.ENVIRONMENT if flight.release_at is None:
            return not is_wanting(tower, flight)
    return flight.release_at is not None and flight.release_at <= tower.clock()


def _queue_again(tower: Tower, connection: Connection, identities: list[str]) -> int:
    found = [flights.get(connection, identity) for identity in identities]
    held = [flight for flight in found if flight is not None and flight.state is FlightState.HELD]
    for flight in held:
        money.queue_again(tower, connection, flight)
    return len(held)
