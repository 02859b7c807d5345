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

from tower.core.confinement import Confinement, Layer, Mechanism
from tower.core.errors import BusyError
from tower.core.factory import Access, Agent, Factory
from tower.core.launch import WORKTREE, Overlay, Workspace
from tower.core.records import Run
from tower.engine.enclosure import confinement_of
from tower.engine.tower import FROZEN, LiveRun, Tower, log
from tower.engine.trees import found, not_of_the_tree, watched
from tower.system.snapshot import not_made
from tower.system.stablecopy import renew_copy
from tower.system.workspace import live_workspace, remove_folder, remove_workspace, sweep_workspaces, take_snapshot

AT_ONCE: Final = 2
"""Snapshots taken at the same time: they are bound by the disk, and agents want the processors."""

KEPT: Final = "kept"
"""A file beside the tree of a snapshot that stays when its run has ended."""

RESIDENT: Final = "resident-"

_limiter = anyio.CapacityLimiter(AT_ONCE)


def snapshot_folder(factory: Factory, run: str) -> Path:
    """Where the snapshot of a run lies; it can be told from the run's id alone, so that a crash leaves no stray."""
    return Path(factory.settings.snapshots_dir) / run


async def make(tower: Tower, live: LiveRun, folder: Path) -> tuple[Workspace, Confinement]:
    """The place for a run, with a snapshot in `folder`, and how it is confined.

    Raises `TowerError`; then nothing is left.
    """
    held = await confinement_of(tower, live.agent, live.runner)
    if held.refusal is not None:
        raise BusyError("sandbox", f"cannot start {live.agent.name}: {held.refusal}")
    if held.layer is None:
        workspace = await found(tower, live.agent, live.run)
        if live.has_own_worktree:
            workspace = replace(workspace, kind=WORKTREE)
    else:
        take = partial(_copy if held.layer is Layer.COPY else _frozen, tower, live, folder, held)
        workspace = await anyio.to_thread.run_sync(take, limiter=_limiter)
        if held.mechanism is Mechanism.NONE:
            workspace = await watched(tower, workspace)
    return _held(workspace, held), held


def _held(workspace: Workspace, held: Confinement) -> Workspace:
    return replace(workspace, sandbox=held.mechanism, enforced=held.enforced, advisory=held.advisory)


def _copy(tower: Tower, live: LiveRun, folder: Path, held: Confinement) -> Workspace:
    """A private copy."""
    agent = live.agent
    taken = take_snapshot(
        live=agent.work_dir,
        folder=str(folder),
        head_only=agent.snapshot == "head",
        include=agent.snapshot_include,
        exclude=not_of_the_tree(tower),
    )
    if agent.snapshot_writes == "keep":
        (folder / KEPT).touch()
        taken = replace(taken, notes=(*taken.notes, f"this snapshot is kept: `rm -r {folder}` removes it"))
    return replace(taken, tree=None, writable=(str(folder),))


def _frozen(tower: Tower, live: LiveRun, folder: Path, held: Confinement) -> Workspace:
    """A frozen tree: under a scratch layer, or itself."""
    agent = live.agent
    frozen = tower.frozen.take(
        live.run.id,
        live=agent.work_dir,
        head_only=agent.snapshot == "head",
        include=agent.snapshot_include,
        exclude=not_of_the_tree(tower),
    )
    log.debug("snapshot.taken", run=live.run.id, frozen=frozen.key, how=frozen.how)
    place = replace(frozen.workspace, frozen=frozen.key, tree=None, readable=(str(Path(frozen.tree).parent),))
    if held.layer is Layer.SHARED:
        return place
    parts = {name: folder / name for name in ("tree", "upper", "work")}
    try:
        folder.mkdir(mode=0o700)
        for part in parts.values():
            part.mkdir(mode=0o700)
    except OSError as error:
        tower.frozen.let_go(live.run.id)
        raise not_made(str(folder), error) from error
    overlay = Overlay(lower=frozen.tree, upper=str(parts["upper"]), work=str(parts["work"]), at=str(parts["tree"]))
    return replace(place, path=str(parts["tree"] / Path(place.path).relative_to(frozen.tree)), overlay=overlay)


def resident_folder(factory: Factory, agent: str) -> Path:
    """Where a read-only resident works. Its name is no run's, and the same for every process of the agent."""
    return Path(factory.settings.snapshots_dir) / f"{RESIDENT}{agent}"


async def renew(tower: Tower, agent: Agent, at: str, turn: Run | None = None) -> Workspace:
    """The place of a resident as the tree is now: a copy at its own path for a read-only one. `at` names this moment.

    Without a `turn` the process is only started. Raises `TowerError` when it cannot be made; then the copy is as it
    was.
    """
    held = await confinement_of(tower, agent, tower.factory.runners[agent.runner])
    if agent.access is Access.READ_WRITE:
        if turn is None:
            return await anyio.to_thread.run_sync(live_workspace, agent.work_dir)
        return _held(await found(tower, agent, turn), held)
    take = partial(
        renew_copy,
        live=agent.work_dir,
        folder=str(resident_folder(tower.factory, agent.name)),
        at=at,
        head_only=agent.snapshot == "head",
        include=agent.snapshot_include,
        exclude=not_of_the_tree(tower),
    )
    taken = await anyio.to_thread.run_sync(take, limiter=_limiter)
    taken = replace(taken, tree=None, writable=(str(resident_folder(tower.factory, agent.name)),))
    if turn is not None and held.mechanism is Mechanism.NONE:
        taken = await watched(tower, taken)
    return _held(taken, held)


async def discard(tower: Tower, folder: Path) -> None:
    """Remove a snapshot, and what its going leaves idle. What cannot be removed is logged, and tried at the next start.

    One that is to be kept stays.
    """
    await anyio.to_thread.run_sync(_drop_idle, tower)
    if folder.exists() and not (folder / KEPT).exists():
        problem = await anyio.to_thread.run_sync(remove_workspace, str(folder))
        if problem:
            log.warning("workspace.left", folder=str(folder), problem=problem)


def _drop_idle(tower: Tower) -> None:
    for problem in tower.frozen.drop_idle(tower.factory.settings.snapshots_max):
        log.warning("frozen.left", problem=problem)


async def discard_of(tower: Tower, run: Run) -> None:
    """Remove the snapshot that an earlier tower made for a run, wherever snapshots were made then."""
    if run.workspace_kind == "snapshot" and run.workspace is not None:
        # It may have worked in a subfolder of it.
        for folder in Path(run.workspace).parents:
            if folder.name == run.id:
                await discard(tower, folder)
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
    for problem in await anyio.to_thread.run_sync(tower.frozen.sweep):
        log.warning("frozen.left", problem=problem)
    await anyio.to_thread.run_sync(_drop_idle, tower)
    alive = {*tower.live, *(one.process.id for one in tower.residents.values() if one.process)}
    names = {identity.partition("_")[2] for identity in alive}
    for socket in tower.state.keepers.iterdir():
        if socket.name not in names:
            socket.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class _InUse:
    """The names of folders that somebody works in: runs, and residents that are there or are to be.

    Frozen trees have a sweep of their own, and what a person is to look at stays.
    """

    tower: Tower

    def __contains__(self, name: object) -> bool:
        agent = str(name).removeprefix(RESIDENT)
        if agent != name:
            return agent in self.tower.residents or agent in self.tower.factory.residents
        kept = Path(self.tower.factory.settings.snapshots_dir, str(name), KEPT)
        return name in self.tower.live or name == FROZEN or kept.exists()
