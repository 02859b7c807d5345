"""Gathering what is known of an interrupted run, for the handover note of the one that takes over.

The wording is `core.handover`'s; here the store, the run's folder and git are asked. What cannot be read is left out:
a note with a gap is better than a run that does not start.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread

from tower.core.accounts import HelpRequest, Report
from tower.core.errors import TowerError
from tower.core.factory import Agent
from tower.core.handover import (
    LAST_WORDS_BYTES,
    EarlierTurn,
    RecoveryFacts,
    Tree,
    new_process_note,
    recovery_note,
)
from tower.core.launch import WRITTEN
from tower.core.notebook import READ_BYTES, entries_of
from tower.core.records import Flight, Process, Run
from tower.core.states import Cause
from tower.engine.memories import memory_file
from tower.engine.tower import Tower, log
from tower.store import accounts, flights, residents, runs
from tower.store.database import Connection
from tower.system.files import read_regular
from tower.system.notebooks import read_end
from tower.system.runlog import read_log
from tower.system.workspace import changes_since

TURNS_TOLD: Final = 3
"""Last turns that the next process of a resident is told of."""

TREE_SEC: Final = 10.0
"""How long git may take to say what changed. The dispatcher waits for it; a note without it is better than that."""


@dataclass(frozen=True, slots=True)
class _Recorded:
    run: Run
    folder: str
    """Where its output lies."""
    sent: tuple[Flight, ...]
    report: Report | None
    asked: tuple[HelpRequest, ...]


async def handover_for(tower: Tower, agent: Agent, flight: Flight, first_of: str | None = None) -> str | None:
    """The handover note for the next run of a flight; None for a first dispatch, which has none.

    With `first_of`, a process of a resident that has had no turn, it tells of the process before it as well.
    """
    notes = [await _of_the_process_before(tower, agent, first_of) if first_of else None]
    notes.append(await _of_the_run_before(tower, agent, flight))
    return "\n\n".join(note for note in notes if note) or None


async def _of_the_process_before(tower: Tower, agent: Agent, process: str) -> str | None:
    def read(connection: Connection) -> tuple[Process | None, list[tuple[Run, Flight | None]]]:
        turns = residents.last_turns(connection, agent.name, limit=TURNS_TOLD)
        told = [(run, flights.get(connection, run.flights[0]) if run.flights else None) for run in turns]
        return residents.latest_process(connection, agent.name), told

    before, turns = await tower.store.read(read)
    if before is None or before.id == process:
        return None
    return new_process_note(
        before.reason,
        before.session,
        [
            EarlierTurn(
                run=run.id,
                sender=flight.sender.name if flight else "somebody",
                ended_at=run.ended_at,
                outcome=f"{run.outcome}, {run.reason}" if run.reason else str(run.outcome),
                answer=_answer(tower, run),
            )
            for run, flight in turns
        ],
    )


def _answer(tower: Tower, run: Run) -> str | None:
    path = tower.state.run_folder(run.agent, run.id) / "answer.txt"
    found = read_regular(path, LAST_WORDS_BYTES, tail=True)
    return None if found is None else found.decode(errors="replace")


async def _of_the_run_before(tower: Tower, agent: Agent, flight: Flight) -> str | None:
    if flight.cause is not Cause.RECOVERY or flight.follows_run is None:
        return None
    recorded = await tower.store.read(partial(_recorded, flight.follows_run))
    if recorded is None:
        return None
    run = recorded.run
    words = _last_words(run, recorded.folder)
    remembered = entries_of(_end(memory_file(tower.state.hangars, agent)), run.id)
    logged = entries_of(_end(Path(tower.factory.settings.logbook)), run.id)
    tree = None
    with anyio.move_on_after(TREE_SEC):
        tree = await anyio.to_thread.run_sync(_tree, run, abandon_on_cancel=True)
    return recovery_note(
        RecoveryFacts(
            run=run.id,
            why=run.interruption,
            attempt=flight.attempt,
            attempts=1 + agent.max_recovery_attempts,
            reason=run.reason,
            ended_at=run.ended_at,
            seconds=run.ended_at - run.started_at if run.ended_at and run.started_at else None,
            note=flight.note,
            sent=recorded.sent,
            remembered=remembered,
            logged=logged,
            report=recorded.report,
            asked=recorded.asked,
            tree=tree,
            last_words=words,
        )
    )


def _recorded(identity: str, connection: Connection) -> _Recorded | None:
    run = runs.get(connection, identity)
    if run is None:
        return None
    sent: list[Flight] = []
    earlier: Run | None = run
    # A run that was itself a recovery stands for all that was sent before it.
    while earlier is not None:
        sent = [*flights.sent_by(connection, earlier.id), *sent]
        earlier = runs.get(connection, earlier.follows_run) if earlier.follows_run else None
    process = runs.process(connection, run.process)
    return _Recorded(
        run,
        process.folder if process else "",
        tuple(sent),
        accounts.report(connection, run.id),
        tuple(accounts.of_run(connection, run.id)),
    )


def _end(notebook: Path) -> str:
    """The end of a memory or of the logbook: what a run wrote lately stands there."""
    return read_end(notebook, READ_BYTES)[0].decode(errors="replace")


def _last_words(run: Run, folder: str) -> bytes:
    try:
        if run.turn is None:
            return read_log(folder, "stdout", -LAST_WORDS_BYTES, LAST_WORDS_BYTES).data
        if run.out_from is None or run.out_to is None:
            return b""
        begin = max(run.out_from, run.out_to - LAST_WORDS_BYTES)
        return read_log(folder, "stdout", begin, run.out_to - begin).data
    except OSError as error:
        log.warning("handover.no-log", run=run.id, error=str(error))
        return b""


def _tree(run: Run) -> Tree | None:
    if run.workspace_kind not in WRITTEN or run.workspace is None:
        return Tree(kind="snapshot") if run.workspace_kind else None
    try:
        changes = changes_since(run.workspace, run.base_commit)
    except TowerError as error:
        log.warning("handover.no-tree", run=run.id, error=str(error))
        return None
    return Tree(
        kind="live",
        branch=changes.branch,
        commits=changes.commits,
        files=changes.files,
        more_files=changes.more,
        unknown=changes.unknown if changes.is_repository else None,
    )
