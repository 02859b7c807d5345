"""The conduct of one run, from its claim to its settlement: workspace, folder, keeper, and listening to it.

A step that fails undoes the ones before it and ends in one sentence on the run's record. When the tower goes away in
the middle, nothing is undone: the next one finds in the store and the run's folder how far it came (`recover`).
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import signal
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import anyio

from tower.core.errors import BusyError, ConflictError, TowerError
from tower.core.failpoint import failpoint
from tower.core.launch import KeeperPlan, Launch, Walls, Workspace
from tower.core.outcome import DONE, overrules
from tower.core.states import FlightState, RunState
from tower.engine import offering, places, secrecy, worktrees
from tower.engine.compose import Prepared, launch
from tower.engine.enclosure import walls_around
from tower.engine.finished import until_finished
from tower.engine.settle import settle
from tower.engine.tower import LiveRun, Tower, log
from tower.engine.unstarted import settle_failed_start, settle_unstarted
from tower.runners import closes_with_a_record
from tower.store import events, flights, runs
from tower.store.database import Connection
from tower.system.cgroups import group_of
from tower.system.keeperlink import Exited, Grew, KeeperLink
from tower.system.procfs import boot_id

PRIVATE_DIR: Final = 0o700
PRIVATE_FILE: Final = 0o600

WANTS: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM})
"""What is wanting for a time."""


async def conduct(tower: Tower, live: LiveRun, prepared: Prepared) -> None:
    """Carry one claimed run through. Never raises what belongs to the run: that ends on its record."""
    place = places.snapshot_folder(tower.factory, live.run.id)
    try:
        failpoint("workspace.before")
        noted: tuple[str, ...] = ()
        if prepared.factory.has_own_worktree(prepared.chain.pipeline):
            noted = await worktrees.enter(tower, live)
        workspace, held = await places.make(tower, live, place)
        workspace = replace(workspace, notes=(*noted, *workspace.notes))
        failpoint("workspace.after")
        start = launch(tower, prepared, number=live.run.number, workspace=workspace.path)
        secrecy.keep(tower, live, start.secrets)
        folder = _write_folder(tower, live, start)
        failpoint("folder.after")
        await tower.store.write(partial(_record_place, live, start, workspace))
        failpoint("token.after")
        walls = walls_around(tower, held, workspace, prepared.program(live.run.number), folder)
        link = await _start_keeper(tower, live, start, workspace, folder, walls) if live.stopping is None else None
    except TowerError as error:
        log.warning("run.start-failed", run=live.run.id, error=str(error))
        await settle_failed_start(tower, live, error)
    else:
        if link is None:
            await settle_unstarted(tower, live, None)
        else:
            await follow(tower, live, link)
    await places.discard(tower, place)
    await places.empty_scratch(tower.state.run_folder(live.run.agent, live.run.id))
    failpoint("workspace.removed")


async def follow(tower: Tower, live: LiveRun, link: KeeperLink) -> None:
    """Listen to a keeper until its run is gone, then settle. Serves a fresh run and an adopted one alike."""
    live.link = link
    try:
        if live.stopping is not None:
            await _ask_to_stop(tower, live, live.stopping)
        async with anyio.create_task_group() as group:
            if closes_with_a_record(live.runner):
                group.start_soon(_end_when_finished, tower, live)
            async for word in link.words():
                if isinstance(word, Grew):
                    live.printed = word.out
                if isinstance(word, Grew | Exited):
                    tower.bus.pulse(live.run.id)
            group.cancel_scope.cancel()
    finally:
        await link.aclose()
    failpoint("settle.before")
    await settle(tower, live)
    failpoint("settle.after")


async def _end_when_finished(tower: Tower, live: LiveRun) -> None:
    await until_finished(tower, live)
    await _ask_to_stop(tower, live, DONE)


async def stop(tower: Tower, live: LiveRun, word: str) -> None:
    """Ask a run to end; its outcome is judged by that. Asking twice is fine: the first word counts, unless a person
    cancels what the tower would have begun again.

    Raises `ConflictError` for a keeper of another version, which only tells and takes no requests, and `BusyError`
    when the request could not be written down: it was made all the same.
    """
    try:
        if live.stopping is None or overrules(word, live.stopping):
            live.stopping = word
            await tower.store.write(lambda connection: runs.update(connection, live.run.id, stopping=word))
    finally:
        if live.link is not None:
            await live.link.stop(word, tower.factory.settings.grace_sec)


async def stop_every(tower: Tower, word: str, *, itinerary: str | None = None) -> None:
    """Ask every run to end, or those of one chain. A keeper that cannot be asked is logged; its own limits go on."""
    for live in list(tower.live.values()):
        if itinerary in (None, live.run.itinerary):
            await _ask_to_stop(tower, live, word)


async def _ask_to_stop(tower: Tower, live: LiveRun, word: str) -> None:
    try:
        await stop(tower, live, word)
    except (BusyError, ConflictError) as error:
        log.warning("run.cannot-stop", run=live.run.id, error=str(error))


def _write_folder(tower: Tower, live: LiveRun, start: Launch) -> Path:
    folder = tower.state.run_folder(live.run.agent, live.run.id)
    try:
        for made in (folder, folder / "out", folder / "tmp"):
            made.mkdir(mode=PRIVATE_DIR, parents=True, exist_ok=True)
        _write_private(folder / "payload.md", start.payload)
        for name, text in start.files.items():
            _write_private(folder / name, text)
        shown = {"argv": list(start.argv), "environment": sorted(start.env), "forwarded": list(start.forwarded)}
        _write_private(folder / secrecy.ARGV, json.dumps(shown, indent=1) + "\n")
    except OSError as error:
        kind = BusyError if error.errno in WANTS else TowerError
        raise kind(
            "run-folder",
            f"cannot write the run's folder {folder}: {error.strerror}",
            "look at the space and the rights of the state folder",
        ) from error
    return folder


def _write_private(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, PRIVATE_FILE)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)


def _record_place(live: LiveRun, start: Launch, workspace: Workspace, connection: Connection) -> None:
    runs.update(
        connection,
        live.run.id,
        payload_sha256=hashlib.sha256(start.payload.encode()).hexdigest(),
        payload_bytes=len(start.payload.encode()),
        workspace_kind=workspace.kind,
        workspace=workspace.path,
        base_commit=workspace.base,
        tree_before=workspace.tree,
        watched=workspace.watched,
        sandbox=workspace.sandbox,
        frozen=workspace.frozen,
    )
    runs.add_notes(connection, live.run.id, (*workspace.notes, *workspace.advisory))


async def _start_keeper(
    tower: Tower, live: LiveRun, start: Launch, workspace: Workspace, folder: Path, walls: Walls | None
) -> KeeperLink:
    plan = KeeperPlan(
        run=live.run.id,
        folder=str(folder),
        socket_dir=str(tower.state.keepers),
        socket_name=live.run.id.partition("_")[2],
        argv=start.argv,
        env=start.env,
        cwd=workspace.path,
        umask=tower.agents_umask,
        limits=start.limits,
        cgroup=group_of(tower.cgroup, live.run.id.partition("_")[2]),
        descriptor_limit=tower.descriptors,
        max_log_bytes=tower.factory.settings.max_log_bytes,
        stop_signal=signal.Signals[f"SIG{start.stop_signal}"],
        secrets=start.secrets,
        walls=walls,
        failpoints=tower.failpoints,
    )
    offering.make_ready(tower, live.runner)
    failpoint("keeper.before")
    link = await tower.start_keeper(plan)
    failpoint("keeper.after")
    # From here on the program may be at work: it is written down who it is, cancelled or not, a full disk or not.
    await tower.persist(partial(record_start, tower, live, link))
    failpoint("keeper.recorded")
    offering.expect(tower, live)
    return link


def record_start(tower: Tower, live: LiveRun, link: KeeperLink, connection: Connection) -> None:
    """Write down that a run is alive, and by which processes; what is known already stays."""
    run = live.run
    known = runs.process(connection, run.process)
    now = tower.clock()
    runs.update_process(
        connection,
        run.process,
        keeper_pid=link.pid,
        keeper_ticks=link.ticks,
        boot_id=boot_id(),
        pid=link.agent_pid,
        pid_ticks=link.agent_ticks,
        protocol=link.protocol,
        cgroup=known.cgroup if known is not None and link.is_grouped else None,
        last_seen_at=now,
    )
    if known is not None and known.keeper_pid is not None:
        return
    runs.update(connection, run.id, state=RunState.RUNNING, started_at=now)
    for flight in run.flights:
        flights.move(connection, flight, FlightState.RUNNING)
    first = next(iter(run.flights), None)
    told = tower.event("run.started", flight=first, itinerary=run.itinerary, run=run.id, agent=run.agent)
    events.append(connection, told)
