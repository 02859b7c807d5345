"""Where runs work: making and removing their workspaces, off the event loop.

What a workspace is and how a snapshot is taken is left to `tower.system.workspace`.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread

from tower.core.factory import Access, Agent, Factory
from tower.core.launch import Workspace
from tower.engine.tower import Tower, log
from tower.store import runs
from tower.system.stablecopy import renew_copy
from tower.system.workspace import live_workspace, remove_workspace, sweep_workspaces, take_snapshot

AT_ONCE: Final = 2
"""Snapshots taken at the same time: they are bound by the disk, and agents want the processors."""

RESIDENT: Final = "resident-"

_limiter = anyio.CapacityLimiter(AT_ONCE)


def snapshot_folder(factory: Factory, run: str) -> Path:
    """Where the snapshot of a run lies; it can be told from the run's id alone, so that a crash leaves no stray."""
    return Path(factory.settings.snapshots_dir) / run


async def make(tower: Tower, agent: Agent, run: str) -> Workspace:
    """The place for a run of this agent. Raises `TowerError` when it cannot be made; then nothing is left."""
    if agent.access is Access.READ_WRITE:
        return await anyio.to_thread.run_sync(live_workspace, agent.work_dir)
    take = partial(
        take_snapshot,
        live=agent.work_dir,
        folder=str(snapshot_folder(tower.factory, run)),
        head_only=agent.snapshot == "head",
        include=agent.snapshot_include,
        exclude=(str(tower.state.root), tower.factory.settings.snapshots_dir),
    )
    return await anyio.to_thread.run_sync(take, limiter=_limiter)


def resident_folder(factory: Factory, agent: str) -> Path:
    """Where a read-only resident works. Its name is no run's, and the same for every process of the agent."""
    return Path(factory.settings.snapshots_dir) / f"{RESIDENT}{agent}"


async def renew(tower: Tower, agent: Agent, at: str) -> Workspace:
    """The place of a resident as the tree is now: a copy at its own path for a read-only one. `at` names this moment.

    Raises `TowerError` when it cannot be made; then the copy is as it was.
    """
    if agent.access is Access.READ_WRITE:
        return await anyio.to_thread.run_sync(live_workspace, agent.work_dir)
    take = partial(
        renew_copy,
        live=agent.work_dir,
        folder=str(resident_folder(tower.factory, agent.name)),
        at=at,
        head_only=agent.snapshot == "head",
        include=agent.snapshot_include,
        exclude=(str(tower.state.root), tower.factory.settings.snapshots_dir),
    )
    return await anyio.to_thread.run_sync(take, limiter=_limiter)


async def discard(folder: Path) -> None:
    """Remove a snapshot. What cannot be removed is logged, and tried again at the next start."""
    if folder.exists():
        problem = await anyio.to_thread.run_sync(remove_workspace, str(folder))
        if problem:
            log.warning("workspace.left", folder=str(folder), problem=problem)


async def sweep(tower: Tower) -> None:
    """Remove the snapshots that no open run uses: what a crash left."""
    keep = {run.id for run in await tower.store.read(runs.open_runs)}
    keep |= {f"{RESIDENT}{name}" for name in (*tower.factory.residents, *tower.residents)}
    await anyio.to_thread.run_sync(sweep_workspaces, tower.factory.settings.snapshots_dir, keep)
