"""Where runs work: making and removing their workspaces, off the event loop.

What a workspace is and how a snapshot is taken is left to `tower.system.workspace`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread

from tower.core.errors import BusyError, TowerError
from tower.core.factory import Access, Agent, Factory
from tower.core.launch import LIVE, Workspace
from tower.core.records import Run
from tower.core.states import Cause
from tower.engine.tower import LiveRun, Tower, log
from tower.system.rescue import RESCUE, rescue
from tower.system.stablecopy import renew_copy
from tower.system.treestore import name_tree
from tower.system.workspace import live_workspace, remove_folder, remove_workspace, sweep_workspaces, take_snapshot

AT_ONCE: Final = 2
"""Snapshots taken at the same time: they are bound by the disk, and agents want the processors."""

RESIDENT: Final = "resident-"

_limiter = anyio.CapacityLimiter(AT_ONCE)


def snapshot_folder(factory: Factory, run: str) -> Path:
    """Where the snapshot of a run lies; it can be told from the run's id alone, so that a crash leaves no stray."""
    return Path(factory.settings.snapshots_dir) / run


async def make(tower: Tower, live: LiveRun, folder: Path) -> Workspace:
    """The place for a run, with a snapshot in `folder`. Raises `TowerError`; then nothing is left."""
    agent = live.agent
    if agent.access is Access.READ_WRITE:
        return await anyio.to_thread.run_sync(partial(_live, tower, agent, live.run))
    take = partial(
        take_snapshot,
        live=agent.work_dir,
        folder=str(folder),
        head_only=agent.snapshot == "head",
        include=agent.snapshot_include,
        exclude=_not_of_the_tree(tower),
    )
    return await anyio.to_thread.run_sync(take, limiter=_limiter)


def resident_folder(factory: Factory, agent: str) -> Path:
    """Where a read-only resident works. Its name is no run's, and the same for every process of the agent."""
    return Path(factory.settings.snapshots_dir) / f"{RESIDENT}{agent}"


async def renew(tower: Tower, agent: Agent, at: str, turn: Run | None = None) -> Workspace:
    """The place of a resident as the tree is now: a copy at its own path for a read-only one. `at` names this moment.

    Without a `turn` the process is only started. Raises `TowerError` when it cannot be made; then the copy is as it
    was.
    """
    if agent.access is Access.READ_WRITE:
        if turn is None:
            return await anyio.to_thread.run_sync(live_workspace, agent.work_dir)
        return await anyio.to_thread.run_sync(partial(_live, tower, agent, turn))
    take = partial(
        renew_copy,
        live=agent.work_dir,
        folder=str(resident_folder(tower.factory, agent.name)),
        at=at,
        head_only=agent.snapshot == "head",
        include=agent.snapshot_include,
        exclude=_not_of_the_tree(tower),
    )
    return await anyio.to_thread.run_sync(take, limiter=_limiter)


def _live(tower: Tower, agent: Agent, run: Run) -> Workspace:
    """The live tree, its content named; what an interrupted run left uncommitted there is kept first."""
    workspace = live_workspace(agent.work_dir)
    if workspace.repository is None:
        return workspace
    notes = list(workspace.notes)
    if run.cause is Cause.RECOVERY and run.follows_run is not None:
        notes += _rescued(tower, workspace, run.follows_run)
    try:
        named = name_tree(workspace.root, str(tower.state.trees), exclude=_not_of_the_tree(tower))
    except TowerError as error:
        return replace(workspace, notes=(*notes, f"what this run changes cannot be shown: {error}"))
    return replace(workspace, tree=named.tree, notes=(*notes, *named.notes))


def _rescued(tower: Tower, workspace: Workspace, before: str) -> list[str]:
    """Keep what `before` left; a note for each repository. Raises `BusyError` when it cannot be kept for a time."""
    try:
        kept = rescue(workspace.root, before, store=str(tower.state.trees), exclude=_not_of_the_tree(tower))
    except BusyError:
        raise
    except TowerError as error:
        log.warning("rescue.failed", run=before, error=str(error))
        return [f"what {before} left uncommitted was not kept: {error}"]
    return [
        f"what {before} left uncommitted in {top} is kept:"
        f" `git restore --source={RESCUE}{before} --worktree :/` there brings it back"
        for top in kept
    ]


def _not_of_the_tree(tower: Tower) -> tuple[str, ...]:
    return str(tower.state.root), tower.factory.settings.snapshots_dir


def before(workspace: Workspace) -> str | None:
    """The name of what a writer found."""
    return workspace.tree if workspace.kind == LIVE else None


async def name_after(tower: Tower, run: Run) -> tuple[str | None, tuple[str, ...]]:
    """The name of what a run left in its live tree, and what a person should know of that; None where it has none."""
    if run.tree_before is None or run.workspace is None:
        return None, ()
    name = partial(name_tree, run.workspace, str(tower.state.trees), exclude=_not_of_the_tree(tower))
    try:
        named = await anyio.to_thread.run_sync(name)
    except TowerError as error:
        return None, (f"what this run changed cannot be shown: {error}",)
    return named.tree, ()


async def discard(folder: Path) -> None:
    """Remove a snapshot. What cannot be removed is logged, and tried again at the next start."""
    if folder.exists():
        problem = await anyio.to_thread.run_sync(remove_workspace, str(folder))
        if problem:
            log.warning("workspace.left", folder=str(folder), problem=problem)


async def discard_of(run: Run) -> None:
    """Remove the snapshot that an earlier tower made for a run, wherever snapshots were made then."""
    if run.workspace_kind == "snapshot" and run.workspace is not None:
        # It may have worked in a subfolder of it.
        for folder in Path(run.workspace).parents:
            if folder.name == run.id:
                await discard(folder)
                return


async def empty_scratch(folder: Path) -> None:
    """Remove what a run that is over left in its TMPDIR: nobody looks there any more, and it may be large."""
    scratch = folder / "tmp"
    try:
        scratch.rmdir()  # as a rule it is empty, and needs no program to be deleted
    except FileNotFoundError:
        return
    except OSError:
        problem = await anyio.to_thread.run_sync(remove_folder, str(scratch))
        if problem:
            log.warning("scratch.left", folder=str(scratch), problem=problem)


async def sweep(tower: Tower) -> None:
    """Remove what a crash left of what is over: snapshots, keepers' sockets. More may come to life meanwhile."""
    await anyio.to_thread.run_sync(sweep_workspaces, tower.factory.settings.snapshots_dir, _InUse(tower))
    alive = {*tower.live, *(one.process.id for one in tower.residents.values() if one.process)}
    names = {identity.partition("_")[2] for identity in alive}
    for socket in tower.state.keepers.iterdir():
        if socket.name not in names:
            socket.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class _InUse:
    """The names of folders that somebody works in: runs, and residents that are there or are to be."""

    tower: Tower

    def __contains__(self, name: object) -> bool:
        agent = str(name).removeprefix(RESIDENT)
        if agent != name:
            return agent in self.tower.residents or agent in self.tower.factory.residents
        return name in self.tower.live
