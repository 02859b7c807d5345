"""The end of a resident's process: what is left of it is ended, how it went is written down, and what follows.

An end that somebody asked for is none to worry about. Any other counts: the pauses before the next start grow, and
after too many within a short time a person has to look at it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final

import anyio.to_thread

from tower.core.launch import ExitRecord, StartRecord
from tower.core.outcome import LIMITS, best_line
from tower.core.records import Process
from tower.core.residence import Residence, ResidentState
from tower.engine.evidence import end_what_is_left
from tower.engine.settle import until_written
from tower.engine.tower import Resident, Tower
from tower.store import events, residents, runs
from tower.store.database import Connection
from tower.system.procfs import boot_id
from tower.system.runlog import read_log
from tower.system.runrecords import read_exit, read_start

WHY_ASKED: Final = {
    "idle": "nothing had come for it for as long as max_idle_sec allows",
    "max-turns": "it had had the turns that max_turns allows",
    "changed": "the configuration of its agent changed",
    "removed": "its agent is not a resident of the configuration any more",
    "restart": "a person wanted another one",
    "cancelled": "a person cancelled its turn",
    "steered": "a person redirected the work of its turn",
    "halted": "a ground stop ended it",
    "stop": "the tower was stopped",
}
"""By the word that came with the request to stop."""

ERROR_BYTES: Final = 4096


@dataclass(frozen=True, slots=True)
class _How:
    words: str
    was_asked: bool
    is_idle: bool = False


async def write_end(tower: Tower, resident: Resident) -> None:
    """Confirm that the process is gone, and go over to what follows; its open turn is cut off, if it has no result."""
    process = resident.process
    assert process is not None  # noqa: S101 (it is attended)
    fresh = await tower.store.read(lambda connection: runs.process(connection, process.id)) or process
    left = await end_what_is_left(tower, process.id, fresh)
    how = await anyio.to_thread.run_sync(_how, fresh, resident.start_error)
    now = tower.clock()
    if how.was_asked:
        after = resident.residence.ended_as_asked(how.words, idle=how.is_idle)
    else:
        after = resident.residence.exited(now, how.words)
    if left:
        pids = ", ".join(map(str, left))
        after = after.given_up(f"processes of it could not be ended ({pids}): end them")
    await until_written(tower, partial(_write, tower, fresh, how, after, now))
    tower.redaction.remove(resident.secrets)
    resident.residence, resident.process, resident.link, resident.lines = after, None, None, None
    resident.secrets, resident.start_error = (), None
    if resident.turn is not None:
        resident.turn.left, resident.turn.is_cut_off = left, True
        tower.bus.pulse(resident.turn.live.run.id)
        resident.turn = None
    tower.wake()


def _write(tower: Tower, process: Process, how: _How, after: Residence, now: float, connection: Connection) -> None:
    runs.update_process(connection, process.id, ended_at=now, exited=not how.was_asked, reason=how.words)
    told = partial(tower.event, agent=process.agent, process=process.id, words=how.words)
    events.append(connection, told("resident.ended", exited=not how.was_asked, turns=process.turns))
    if after.state is ResidentState.QUARANTINED:
        residents.say(connection, process.agent, quarantined_at=now, quarantine=after.why)
        events.append(connection, told("resident.quarantined"))


def _how(process: Process, start_error: str | None) -> _How:
    """How it ended, by its records, and whether anybody had asked for that."""
    record = read_exit(process.folder)
    if record is None and start_error is not None:
        return _How(start_error, was_asked=False)
    if record is None:
        return _without_record(read_start(process.folder))
    if record.stopping is not None:
        words = WHY_ASKED.get(record.stopping, record.stopping)
        return _How(words, was_asked=True, is_idle=record.stopping == "idle")
    if record.limit == "orphan":
        return _How(LIMITS["orphan"].reason or record.limit, was_asked=True)
    return _How(_by_itself(process, record), was_asked=False)


def _without_record(start: StartRecord | None) -> _How:
    if start is None or start.void:
        return _How("it was not started: the tower ended before", was_asked=True)
    if start.boot_id != boot_id():
        return _How("the machine was started anew", was_asked=True)
    return _How("its keeper vanished, and how the program ended is not known", was_asked=False)


def _by_itself(process: Process, record: ExitRecord) -> str:
    if record.start_error is not None:
        return f"its program could not be started: {record.start_error}"
    if record.limit is not None:
        known = LIMITS.get(record.limit)
        return (known.reason if known else None) or record.limit
    ended = f"signal {record.signal}" if record.signal is not None else f"exit code {record.code}"
    errors = read_log(process.folder, "stderr", -ERROR_BYTES, ERROR_BYTES).data.decode(errors="replace")
    line = best_line(errors, "")
    return f"its program ended by itself ({ended})" + (f": {line}" if line else "")
