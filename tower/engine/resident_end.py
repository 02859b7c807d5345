"""The end of a resident's process: what is left of it is ended, how it went is written down, and what follows.

An end that somebody asked for is none to worry about. Any other counts: the pauses before the next start grow, and
after too many within a short time a person has to look at it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

import anyio.to_thread

from tower.core.last_words import best_line
from tower.core.launch import ExitRecord, StartRecord
from tower.core.outcome import LIMITS, is_passing
from tower.core.records import Process
from tower.core.residence import Residence, ResidentState
from tower.engine import places
from tower.engine.evidence import end_what_is_left, printed, start_of
from tower.engine.tower import Resident, Tower
from tower.store import events, residents, runs
from tower.store.database import Connection
from tower.system.procfs import boot_id
from tower.system.runrecords import read_exit

WHY_ASKED: Final = {
    "idle": "nothing had come for it for as long as max_idle_sec allows",
    "max-turns": "it had had the turns that max_turns allows",
    "changed": "the configuration of its agent changed",
    "removed": "its agent is not a resident of the configuration any more",
    "restart": "a person wanted another one",
    "cancelled": "a person cancelled its turn",
    "steered": "a person redirected the work of its turn",
    "fuel": "its turn took its chain past its Fuel",
    "halted": "a ground stop ended it",
    "stop": "the tower was stopped",
}
"""By the word that came with the request to stop."""

OF_A_TURN: Final = frozenset({"timeout", "stall", "first_output"})
"""Limits that hold for a turn; their words tell what it did."""

ERROR_BYTES: Final = 4096


@dataclass(frozen=True, slots=True)
class _How:
    words: str
    was_asked: bool = False
    is_idle: bool = False
    is_passing: bool = False
    """It could not be started, and that says nothing about its program."""

    @property
    def counts(self) -> bool:
        """As an end that a person may have to look at."""
        return not (self.was_asked or self.is_passing)


async def write_end(tower: Tower, resident: Resident) -> None:
    """Confirm that the process is gone, and go over to what follows; its open turn is cut off, if it has no result."""
    process = resident.process
    assert process is not None  # noqa: S101 (it is attended)
    fresh = await tower.store.read(lambda connection: runs.process(connection, process.id)) or process
    left = await end_what_is_left(tower, process.id, fresh)
    how = await anyio.to_thread.run_sync(_how, fresh, resident.start_error)
    if resident.residence.state is not ResidentState.STARTING:
        how = replace(how, is_passing=False)
    now = tower.clock()
    if how.was_asked:
        after = resident.residence.ended_as_asked(how.words, idle=how.is_idle)
    elif how.is_passing:
        after = resident.residence.not_started(now, how.words)
    else:
        after = resident.residence.exited(now, how.words)
    if left:
        pids = ", ".join(map(str, left))
        after = after.given_up(f"processes of it could not be ended ({pids}): end them")
    await tower.persist(partial(_write, tower, fresh, how, after, now))
    tower.redaction.remove(resident.secrets)
    resident.residence, resident.process, resident.link, resident.lines = after, None, None, None
    resident.secrets, resident.start_error = (), None
    if resident.turn is not None:
        resident.turn.left, resident.turn.is_cut_off = left, True
        tower.bus.pulse(resident.turn.live.run.id)
        resident.turn = None
    tower.tasks.start_soon(places.empty_scratch, Path(fresh.folder))
    tower.wake()


def _write(tower: Tower, process: Process, how: _How, after: Residence, now: float, connection: Connection) -> None:
    words = how.words
    if how.counts and residents.resumed_in_vain(connection, process):
        # A program whose conversation is gone would end again and again.
        words += f"; it was to resume {process.session}, and the next one begins anew"
        residents.forget_sessions(connection, process.agent)
    runs.update_process(connection, process.id, ended_at=now, exited=how.counts, reason=words)
    told = partial(tower.event, agent=process.agent, process=process.id, words=words)
    events.append(connection, told("resident.ended", exited=how.counts, turns=process.turns))
    if after.state is ResidentState.QUARANTINED:
        residents.say(connection, process.agent, quarantined_at=now, quarantine=after.why)
        events.append(connection, told("resident.quarantined"))


def _how(process: Process, start_error: str | None) -> _How:
    """How it ended, by its records, and whether anybody had asked for that."""
    record = read_exit(process.folder)
    if record is None:
        return _without_record(start_of(process), start_error)
    if record.stopping is not None:
        words = WHY_ASKED.get(record.stopping, record.stopping)
        return _How(words, was_asked=True, is_idle=record.stopping == "idle")
    if record.limit == "orphan":
        return _How(LIMITS["orphan"].reason or record.limit, was_asked=True)
    return _How(_by_itself(process, record), is_passing=bool(record.start_error and is_passing(record.start_error)))


def _without_record(start: StartRecord | None, start_error: str | None) -> _How:
    if start is None or start.void:
        if start_error is not None:
            return _How(start_error, is_passing=True)
        return _How("it was not started: the tower ended before", was_asked=True)
    if start.boot_id != boot_id():
        return _How("the machine was started anew", was_asked=True)
    return _How("its keeper vanished, and how the program ended is not known")


def _by_itself(process: Process, record: ExitRecord) -> str:
    if record.start_error is not None:
        return f"its program could not be started: {record.start_error}"
    if record.limit is not None:
        known = LIMITS.get(record.limit)
        words = (known.reason if known else None) or record.limit
        return f"its turn {words}" if record.limit in OF_A_TURN else words
    ended = f"signal {record.signal}" if record.signal is not None else f"exit code {record.code}"
    errors = printed(Path(process.folder), "stderr", -ERROR_BYTES, ERROR_BYTES)
    line = best_line(errors.decode(errors="replace"), "")
    return f"its program ended by itself ({ended})" + (f": {line}" if line else "")
