"""The kill switch: a file in the state folder, so that it survives everything and `touch` works when nothing answers.

Engaged: nothing starts, sends are held, runs are ended. Released: what was held goes on; what was ended does not
start again on its own.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Final, TypeGuard

import anyio

from tower.core.errors import BusyError, ConflictError
from tower.core.states import FlightState, HeldReason
from tower.engine import conduct
from tower.engine.tower import GroundStop, Tower, log
from tower.store import events, flights
from tower.store.database import Connection
from tower.system.files import read_regular, write_private

LOOK_SEC: Final = 0.5
"""How often the file is looked for: a `stat` call. It must be seen within a second, on any file system."""

MAX_BYTES: Final = 32 << 10
"""What is read of the file: as much as the longest reason takes that the API accepts, every character escaped."""

WORDS_CHARS: Final = 200
"""Characters that are shown of a file which is no record of ours."""

YEAR_9999: Final = 253_370_764_800.0
"""Seconds since the epoch; later moments cannot be written as a date."""


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
    there = _is_there(tower)
    if there and tower.ground_stop is None:
        await _engage(tower)
    elif not there and tower.ground_stop is not None:
        await _release(tower)


async def engage(tower: Tower, *, by: str, why: str) -> None:
    """Write the file and act on it; engaging twice keeps the first. Raises `BusyError` when it cannot be made."""
    if not _is_there(tower):
        path = tower.state.ground_stop
        text = json.dumps({"since": tower.clock(), "by": by, "why": why}) + "\n"
        try:
            write_private(path, text.encode())
        except OSError as error:
            log.error("ground-stop.words-lost", error=str(error))
            _touch(path)
    await look(tower)


async def release(tower: Tower) -> None:
    """Remove the file and act on it; releasing what is not engaged is fine. Raises `ConflictError`."""
    path = tower.state.ground_stop
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise ConflictError(
            "ground-stop", f"cannot release the ground stop: {path}: {error.strerror}", "remove it by hand"
        ) from error
    await look(tower)


def read(tower: Tower) -> GroundStop | None:
    """What the file says, or None when there is none. An empty or strange file engages as well."""
    path = tower.state.ground_stop
    try:
        made = path.lstat().st_mtime
    except OSError:
        return None
    said = _said((read_regular(path, MAX_BYTES) or b"").decode(errors="replace").strip())
    since = next(filter(_is_moment, (said["since"], made)), tower.clock())
    return GroundStop(since=since, by=str(said["by"]), why=str(said["why"]))


def _said(text: str) -> dict[str, Any]:
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        said = None
    if isinstance(said, dict) and {"since", "by", "why"} <= said.keys():
        return said
    return {"since": None, "by": "hand (the file was made)", "why": text[:WORDS_CHARS]}


def _is_moment(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and 0 <= value < YEAR_9999


def _is_there(tower: Tower) -> bool:
    """Whatever has the name counts, a link to nowhere as well."""
    return os.path.lexists(tower.state.ground_stop)


def _touch(path: Path) -> None:
    """A full disk may have room for a name still."""
    try:
        path.touch(mode=0o600)
    except OSError as error:
        raise BusyError(
            "ground-stop",
            f"cannot engage the ground stop: {path}: {error.strerror}",
            "make room, or end the runs one by one with `tower cancel`",
        ) from error


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
