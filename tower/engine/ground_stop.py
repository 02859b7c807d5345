"""The kill switch: a file in the state folder, so that it survives everything and `touch` works when nothing answers.

Engaged: nothing starts, sends are held, runs are ended. Released: what was held goes on; what was ended does not
start again on its own.
"""

from __future__ import annotations

from typing import Final

import anyio

from tower.core.errors import BusyError, ConflictError
from tower.core.states import FlightState, HeldReason
from tower.engine import conduct
from tower.engine.tower import GroundStop, Tower, log
from tower.store import events, flights
from tower.store.database import Connection
from tower.system.standing_order import Order, StandingOrder

LOOK_SEC: Final = 0.5
"""How often the file is looked for: a `stat` call. It must be seen within a second, on any file system."""


async def watch(tower: Tower) -> None:
    """Follow the file for ever: engage when it appears, release when it is gone."""
    while True:
        try:
            await look(tower)
        except BusyError as error:
            log.error("ground-stop.failed", error=str(error))
        await anyio.sleep(LOOK_SEC)


async def look(tower: Tower) -> None:
    """Bring the tower in line with the file."""
    there = _order(tower).is_there()
    if there and tower.ground_stop is None:
        await _engage(tower)
    elif not there and tower.ground_stop is not None:
        await _release(tower)


async def engage(tower: Tower, *, by: str, why: str) -> None:
    """Write the file and act on it; engaging twice keeps the first. Raises `BusyError` when it cannot be made."""
    order = _order(tower)
    try:
        if not order.is_there() and not order.give(Order(since=tower.clock(), by=by, why=why)):
            log.error("ground-stop.words-lost")
    except OSError as error:
        raise BusyError(
            "ground-stop",
            f"cannot engage the ground stop: {order.path}: {error.strerror}",
            "make room, or end the runs one by one with `tower cancel`",
        ) from error
    await look(tower)


async def release(tower: Tower) -> None:
    """Remove the file and act on it; releasing what is not engaged is fine. Raises `ConflictError`."""
    order = _order(tower)
    try:
        order.withdraw()
    except OSError as error:
        raise ConflictError(
            "ground-stop", f"cannot release the ground stop: {order.path}: {error.strerror}", "remove it by hand"
        ) from error
    await look(tower)


def read(tower: Tower) -> GroundStop | None:
    """What the file says, or None when there is none. An empty or strange file engages as well."""
    said = _order(tower).read(tower.clock())
    return None if said is None else GroundStop(since=said.since, by=said.by, why=said.why)


def _order(tower: Tower) -> StandingOrder:
    return StandingOrder(tower.state.ground_stop)


async def _engage(tower: Tower) -> None:
    stop = read(tower)
    if stop is None:
        return
    tower.ground_stop = stop
    # The dispatcher holds what is queued; what runs is ended, gracefully first.
    tower.wake()
    told = tower.event("ground-stop.on", by=stop.by, why=stop.why)
    try:
        await tower.store.write(lambda connection: events.append(connection, told))
    except BusyError as error:
        log.error("ground-stop.unrecorded", error=str(error))
    await conduct.stop_every(tower, "halted")


async def _release(tower: Tower) -> None:
    """What stays held because a full disk keeps this from being written is found by `holds.watch`."""
    tower.ground_stop = None

    def transaction(connection: Connection) -> None:
        for flight in flights.held(connection, HeldReason.GROUND_STOP):
            flights.move(connection, flight.id, FlightState.QUEUED)
            event = tower.event(
                "flight.released",
                flight=flight.id,
                itinerary=flight.itinerary,
                agent=flight.receiver,
                hold="ground-stop",
            )
            events.append(connection, event)
        events.append(connection, tower.event("ground-stop.off"))

    await tower.store.write(transaction)
    tower.wake()
