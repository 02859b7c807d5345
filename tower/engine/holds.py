"""Releasing holds whose cause may have gone: after a reload, after a start, when time or space comes back.

A released flight is queued again; whether it may start is decided anew, so releasing too often does no harm.
"""

from __future__ import annotations

from typing import Final

import anyio

from tower.core.errors import BusyError
from tower.core.states import FlightState, HeldReason
from tower.engine import joins
from tower.engine.preview import is_wanting
from tower.engine.tower import Tower, log
from tower.store import events, flights
from tower.store.database import Connection

LOOK_SEC: Final = 5.0
"""How often holds that end by themselves are looked at."""

BY_CONFIGURATION: Final = (HeldReason.AGENT, HeldReason.ENVIRONMENT, HeldReason.OVER_BUDGET)
"""What a new generation, or a restart with other variables, may have mended."""


async def release(tower: Tower, *reasons: HeldReason) -> int:
    """Queue the flights held for these reasons; returns how many."""

    def transaction(connection: Connection) -> int:
        return sum(_queue_again(tower, connection, flight.id) for flight in flights.held(connection, *reasons))

    released = await tower.store.write(transaction)
    if released:
        tower.wake()
    return released


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
    held = await tower.store.read(flights.held)
    now = tower.clock()
    free = tower.free_bytes()
    room = free is None or free >= tower.factory.settings.min_free_bytes
    due = [
        flight.id
        for flight in held
        if (flight.release_at is not None and flight.release_at <= now)
        or (flight.held_reason is HeldReason.DISK and room)
        or (flight.held_reason is HeldReason.GROUND_STOP and tower.ground_stop is None)
        or (
            flight.held_reason is HeldReason.ENVIRONMENT and flight.release_at is None and not is_wanting(tower, flight)
        )
    ]
    if due:
        await tower.store.write(lambda connection: [_queue_again(tower, connection, flight) for flight in due])
        tower.wake()


def _queue_again(tower: Tower, connection: Connection, identity: str) -> bool:
    flight = flights.get(connection, identity)
    if flight is None or flight.state is not FlightState.HELD:
        return False
    flights.move(connection, identity, FlightState.QUEUED)
    events.append(
        connection,
        tower.event(
            "flight.released",
            flight=flight.id,
            itinerary=flight.itinerary,
            agent=flight.receiver,
            hold=flight.held_reason,
        ),
    )
    return True
