"""The turns of residents: claimed like any run, told through the process's keeper, and settled by their result.

A turn goes through: its place brought up to date; its file written; recorded as running, with where its output
begins; told. From there on it ends with its result line, or with its process. Reading the output and looking after
the process is `residents`'; what becomes of the flight is `settle`'s.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread

from tower.core.errors import BusyError, ConflictError, TowerError
from tower.core.evidence import Evidence, Reading
from tower.core.failpoint import failpoint
from tower.core.launch import Workspace
from tower.core.outcome import turn_verdict
from tower.core.residence import ResidentState
from tower.core.states import FlightState, Interruption, RunState
from tower.engine import places
from tower.engine.compose import Prepared, payload_of, told_by
from tower.engine.conduct import WANTS
from tower.engine.evidence import printed
from tower.engine.resident_output import find_result
from tower.engine.settle import Settlement, with_consequence, write_down
from tower.engine.tower import LiveRun, OpenTurn, Resident, Tower, log
from tower.engine.unstarted import settle_unstarted
from tower.runners import jsonl, recognised
from tower.store import events, flights, runs
from tower.store.database import Connection
from tower.system.files import write_private
from tower.system.runlog import log_size
from tower.system.runrecords import read_exit
from tower.system.turnfiles import void_turn, write_turn

TAIL_BYTES: Final = 64 << 10
"""How much of the end of a turn's output is looked at for a reason."""

DEFECT_SEC: Final = 5.0
"""Pause before a turn whose task failed by a defect is looked at anew."""


async def conduct_turn(tower: Tower, resident: Resident, turn: OpenTurn, prepared: Prepared) -> None:
    """Carry one claimed turn through. Never raises what belongs to the turn: that ends on its record."""
    live = turn.live
    error: TowerError | None = None
    turn.is_refused = True
    try:
        failpoint("turn.before")
        workspace = await places.renew(tower, prepared.agent, live.run.id, live.run)
        await _write(tower, turn, prepared, workspace)
        failpoint("turn.written")
        await tower.store.write(partial(_record, tower, turn, prepared, workspace))
        failpoint("turn.recorded")
        await _tell(tower, resident, turn, prepared)
        resident.known = told_by(prepared, workspace.path)
        failpoint("turn.told")
    except TowerError as caught:
        log.warning("turn.start-failed", run=live.run.id, error=str(caught))
        error = caught
    except Exception as defect:
        # Whether it was told says its file; the tower, and the other turns, go on.
        log.exception("turn.defect", run=live.run.id, error=str(defect))
        error = TowerError("defect", f"cannot tell this turn: {type(defect).__name__}: {defect}")
    await see_turn_through(tower, resident, turn, error)


async def see_turn_through(
    tower: Tower, resident: Resident | None, turn: OpenTurn, error: TowerError | None = None
) -> None:
    """Wait for the end of a turn and settle it, whatever happens meanwhile. Serves new and adopted ones alike.

    Without `resident` its process is over. `error` is why it could not be told.
    """
    while True:
        try:
            if await _until_over(tower, turn):
                await _settle(tower, turn)
            else:
                await settle_unstarted(tower, turn.live, error)
            break
        except Exception as defect:
            log.exception("turn.defect", run=turn.live.run.id, error=str(defect))
        await anyio.sleep(DEFECT_SEC)
    if resident is not None:
        await _give_back(tower, resident, turn)


async def _until_over(tower: Tower, turn: OpenTurn) -> bool:
    """Wait for the turn's result or the end of its process; False when it provably was never told."""
    folder = _process_folder(tower, turn)
    while True:
        with tower.bus.listening(turn.live.run.id) as news:
            if turn.result is not None:
                return True
            if turn.is_refused or turn.is_cut_off:
                if await anyio.to_thread.run_sync(_is_void, folder, turn):
                    return False
                if turn.is_cut_off:
                    return True
                turn.is_refused = False
            await news.wait()


def _is_void(folder: Path, turn: OpenTurn) -> bool:
    """See to it that the turn is not told any more; False when it was, or may have been."""
    if turn.live.run.state is RunState.RUNNING and not folder.exists():
        # A power cut took the folder, which was there, and with it what was told.
        return False
    return void_turn(folder, turn.number)


async def _give_back(tower: Tower, resident: Resident, turn: OpenTurn) -> None:
    """The process is free for another turn, if it is still there."""
    if resident.turn is not turn:
        return
    if resident.link is not None:
        try:
            # Before it can have another turn, whose limits this would end.
            await resident.link.done()
        except ConflictError as error:
            log.warning("turn.limits-stay", agent=resident.name, error=str(error))
    if resident.turn is turn:
        resident.turn = None
        resident.quiet_since = tower.clock()
        resident.residence = resident.residence.turn_ended()
    tower.wake()


def _process_folder(tower: Tower, turn: OpenTurn) -> Path:
    return tower.state.run_folder(turn.live.run.agent, turn.live.run.process)


async def _write(tower: Tower, turn: OpenTurn, prepared: Prepared, workspace: Workspace) -> None:
    """The turn's file in the process's folder, whole or not at all, and what was told in the run's own."""
    seat, run = prepared.turn, turn.live.run
    assert seat is not None  # noqa: S101 (a turn was prepared)
    text = payload_of(prepared, workspace.path)
    line = jsonl.request(
        turn=turn.number,
        run=run.id,
        itinerary=run.itinerary,
        number=run.number,
        payload=text,
        new=seat.is_first,
        session=seat.session,
    )
    folder = tower.state.run_folder(run.agent, run.id)

    def write() -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(folder / "payload.md", text.encode())
        write_turn(_process_folder(tower, turn), turn.number, line)

    try:
        await anyio.to_thread.run_sync(write)
    except OSError as error:
        kind = BusyError if error.errno in WANTS else TowerError
        raise kind(
            "run-folder",
            f"cannot write turn {turn.number} of {run.agent}: {error.strerror}",
            "look at the space and the rights of the state folder",
        ) from error


def _record(tower: Tower, turn: OpenTurn, prepared: Prepared, workspace: Workspace, connection: Connection) -> None:
    """The turn counts as running before it is told, so that its token holds from the first moment."""
    run, folder = turn.live.run, _process_folder(tower, turn)
    text = payload_of(prepared, workspace.path).encode()
    runs.update(
        connection,
        run.id,
        state=RunState.RUNNING,
        started_at=tower.clock(),
        payload_sha256=hashlib.sha256(text).hexdigest(),
        payload_bytes=len(text),
        workspace_kind=workspace.kind,
        workspace=workspace.path,
        base_commit=workspace.base,
        tree_before=workspace.tree,
        watched=workspace.watched,
        sandbox=workspace.sandbox,
        out_from=log_size(folder, "stdout"),
        err_from=log_size(folder, "stderr"),
    )
    runs.add_notes(connection, run.id, (*workspace.notes, *workspace.advisory))
    for flight in run.flights:
        flights.move(connection, flight, FlightState.RUNNING)
    first = next(iter(run.flights), None)
    told = tower.event("run.started", flight=first, itinerary=run.itinerary, run=run.id, agent=run.agent)
    events.append(connection, told)


async def _tell(tower: Tower, resident: Resident, turn: OpenTurn, prepared: Prepared) -> None:
    """Have the keeper tell it, unless it was asked to end or its process is not what it was."""
    live, link = turn.live, resident.link
    if link is None or live.stopping is not None or resident.residence.state is not ResidentState.BUSY:
        return
    agent = prepared.agent
    turn.is_refused, turn.is_asked = False, True
    live.link = link
    await link.turn(turn.number, agent.timeout_sec, agent.stall_sec, agent.first_output_sec)
    asked: str | None = turn.live.stopping
    if asked is not None:
        await link.stop(asked, tower.factory.settings.grace_sec)


async def _settle(tower: Tower, turn: OpenTurn) -> None:
    """Judge the turn by its result or by the end of its process, and write down what follows."""
    live = turn.live
    run = await tower.store.read(lambda connection: runs.get(connection, live.run.id)) or live.run
    folder = _process_folder(tower, turn)
    if turn.result is None and run.out_from is not None:
        # It may have answered just before its end, or while no tower read it.
        turn.result = await anyio.to_thread.run_sync(find_result, folder, run.out_from, turn.number)
    evidence, ends = await anyio.to_thread.run_sync(partial(_gather, live, turn, run.out_from, folder))
    result, record = turn.result, evidence.exit
    verdict = turn_verdict(
        evidence,
        ok=None if result is None else result.ok,
        failure=None if result is None or result.ok else jsonl.failure(result),
    )
    verdict = replace(verdict, notes=(*verdict.notes, *_noise(turn)))
    ended = tower.clock() if result is not None or record is None else record.ended_at
    settlement = Settlement(
        run=run,
        started_at=run.started_at,
        # The clock may have been set back meanwhile.
        ended_at=max(ended, run.started_at or 0.0),
        exit=None if result is not None else record,
        reading=evidence.reading,
        verdict=verdict,
        follows=None,
        out_to=ends[0],
        err_to=ends[1],
        left=turn.left,
    )
    failpoint("settle.before")
    await write_down(tower, live, with_consequence(tower, live, settlement))
    failpoint("settle.after")


def _gather(live: LiveRun, turn: OpenTurn, out_from: int | None, folder: Path) -> tuple[Evidence, tuple[int, int]]:
    """What is known of a turn that is over, and where its output ends."""
    out_to = turn.result.end if turn.result is not None else log_size(folder, "stdout")
    begin = max(out_from or 0, out_to - TAIL_BYTES)
    reading = Reading() if turn.result is None else jsonl.reading(turn.result)
    out = printed(folder, "stdout", begin, out_to - begin).decode(errors="replace")
    err = printed(folder, "stderr", -TAIL_BYTES, TAIL_BYTES).decode(errors="replace")
    evidence = Evidence(
        exit=read_exit(folder),
        reading=recognised(live.runner, reading, err, out),
        out_tail=out,
        err_tail=err,
        stopping=live.stopping,
        agent=live.agent,
        without_exit=Interruption.LOST if turn.was_alive else Interruption.TOWER_RESTART,
    )
    return evidence, (out_to, log_size(folder, "stderr"))


def _noise(turn: OpenTurn) -> list[str]:
    return [f"{words} ({count} times)" if count > 1 else words for words, count in turn.noise.most_common(5)]
