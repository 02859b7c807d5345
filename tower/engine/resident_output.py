"""What a resident prints: read from its log by offset, off the event loop, and brought to the turn that it concerns."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final

import anyio.to_thread

from tower.engine.tower import Resident, Tower, log
from tower.runners import jsonl
from tower.runners.jsonl import Lines, Noise, Result, Session
from tower.store import runs
from tower.system.runlog import LARGEST_PAGE, LogChunk, read_log

PAGES_AT_ONCE: Final = 8
"""Pages that are read before what they say is acted upon: a program that floods is not waited for."""


async def read_on(tower: Tower, resident: Resident) -> None:
    """Take in what has been printed since the last time."""
    lines, process = resident.lines, resident.process
    if lines is None or process is None:
        return
    while True:
        found, is_all = await anyio.to_thread.run_sync(partial(_read, process.folder, lines))
        for event in found:
            await _deliver(tower, resident, event)
        if is_all:
            return


def find_result(folder: Path, begin: int, turn: int) -> Result | None:
    """The first result for a turn in the output of a process, from an offset on. Blocks: for a worker thread."""
    lines = Lines(begin)
    while True:
        found, is_all = _read(str(folder), lines)
        for event in found:
            if isinstance(event, Result) and event.turn == turn:
                return event
        if is_all:
            return None


def _read(folder: str, lines: Lines) -> tuple[list[jsonl.Event], bool]:
    found: list[jsonl.Event] = []
    for _ in range(PAGES_AT_ONCE):
        page = _page(folder, lines.at)
        if page is None or not page.data:
            return found, True
        read = (jsonl.read(line, end) for line, end in lines.feed(page.data, page.offset))
        found += (event for event in read if event is not None)
    return found, False


def _page(folder: str, offset: int) -> LogChunk | None:
    """What a disk does not give back is as if it had not been printed. Raises `BusyError` for want of descriptors."""
    try:
        return read_log(folder, "stdout", offset, LARGEST_PAGE)
    except OSError as error:
        log.warning("log.unreadable", folder=folder, stream="stdout", error=str(error))
        return None


async def _deliver(tower: Tower, resident: Resident, event: jsonl.Event) -> None:
    match event:
        case Result():
            await _end_turn(tower, resident, event)
        case Session():
            await _remember(tower, resident, event.id)
        case Noise(words=words):
            if resident.turn is not None:
                resident.turn.noise[words] += 1


async def _end_turn(tower: Tower, resident: Resident, result: Result) -> None:
    """The first result for the turn under way ends it; any other is passed over, and said."""
    turn = resident.turn
    if turn is None or result.turn != turn.number or not turn.is_asked:
        log.warning("resident.stray-result", agent=resident.name, turn=result.turn)
        if turn is not None:
            turn.noise["a result was for another turn"] += 1
        return
    if turn.result is not None:
        turn.noise["it answered more than once; the first answer counts"] += 1
        return
    turn.result = result
    if result.session is not None:
        await _remember(tower, resident, result.session)
    tower.bus.pulse(turn.live.run.id)


async def _remember(tower: Tower, resident: Resident, session: str) -> None:
    process = resident.process
    if process is not None:
        await tower.persist(partial(runs.update_process, identity=process.id, session=session))
