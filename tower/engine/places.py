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
from tower.system.workspace import live_workspace, remove_workspace, sweep_workspaces, take_snapshot

AT_ONCE: Final = 2
"""Snapshots taken at the same time: they are bound by the disk, and agents want the processors."""

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


async def discard(folder: Path) -> None:
    """Remove a snapshot. What cannot be removed is logged, and tried again at the next start."""
    if folder.exists():
        problem = await anyio.to_thread.run_sync(remove_workspace, str(folder))
        if problem:
            log.warning("workspace.left", folder=str(folder), problem=problem)


async def sweep(tower: Tower) -> None:
    """Remove the snapshots that no open run uses: what a crash left."""
    keep = {run.id for run in await tower.store.read(runs.open_runs)}
    await anyio.to_thread.run_sync(sweep_workspaces, tower.factory.settings.snapshots_dir, keep)
