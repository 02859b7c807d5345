"""The kill switch: a file in the state folder, so that it survives everything and `touch` works when nothing answers.

Engaged: nothing starts, sends are held, runs are ended. Released: what was held goes on; what was ended does not
start again on its own.
"""

from __future__ import annotations

import json
from typing import Final

import anyio

from tower.core.errors import BusyError
from tower.core.states import FlightState, HeldReason
from tower.engine import conduct
from tower.engine.tower import GroundStop, Tower, log
from tower.store import events, flights
from tower.store.database import Connection
from tower.system.files import read_regular, write_private

LOOK_SEC: Final = 0.5
"""How often the file is looked for: a `stat` call. It must be seen within a second, on any file system."""

MAX_BYTES: Final = 4096
"""What is read of the file."""


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
    there = tower.state.ground_stop.exists()
    if there and tower.ground_stop is None:
        await _engage(tower)
    elif not there and tower.ground_stop is not None:
        await _release(tower)


async def engage(tower: Tower, *, by: str, why: str) -> None:
    """Write the file and act on it; engaging twice keeps the first."""
    if not tower.state.ground_stop.exists():
        text = json.dumps({"since": tower.clock(), "by": by, "why": why}) + "\n"
        write_private(tower.state.ground_stop, text.encode())
    await look(tower)


async def release(tower: Tower) -> None:
    """Remove the file and act on it; releasing what is not engaged is fine."""
    tower.state.ground_stop.unlink(missing_ok=True)
    await look(tower)


def read(tower: Tower) -> GroundStop | None:
    """What the file says, or None when there is none. An empty or strange file engages as well."""
    path = tower.state.ground_stop
    try:
        since = path.lstat().st_mtime
    except OSError:
        return None
    raw = (read_regular(path, MAX_BYTES) or b"").decode(errors="replace").strip()
    try:
        said = json.loads(raw)
        return GroundStop(since=float(said["since"]), by=str(said["by"]), why=str(said["why"]))
    except (ValueError, TypeError, KeyError):
        return GroundStop(since=since, by="hand (the file was made)", why=raw[:200])


async def _engage(tower: Tower) -> None:
    stop = read(tower)
    if stop is None:
        return
    tower.ground_stop = stop
    await tower.store.write(
        lambda connection: events.append(connection, tower.event("ground-stop.on", by=stop.by, why=stop.why))
    )
    # The dispatcher holds what is queued; what runs is ended, gracefully first.
    tower.wake()
    await conduct.stop_every(tower, "halted")


async def _release(tower: Tower) -> None:
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
