"""Live trees before and after a run: named, so that what it changed can be told, and rescued before it is gone on with.

How a tree is named is left to `system.treestore`, how it is kept to `system.rescue`; the calls here decide when.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import anyio.to_thread

from tower.core.errors import BusyError, TowerError
from tower.core.factory import Agent
from tower.core.launch import WRITTEN, Workspace
from tower.core.records import Run
from tower.core.states import Cause
from tower.engine.tower import Tower, log
from tower.store import runs
from tower.system.rescue import RESCUE, rescue
from tower.system.workspace import live_workspace


async def found(tower: Tower, agent: Agent, run: Run) -> Workspace:
    """The live tree, its content named; what an interrupted run left uncommitted there is kept first.

    Raises `InvalidError` when there is no such folder, and `BusyError` when something cannot be kept for the moment.
    """
    workspace = await anyio.to_thread.run_sync(live_workspace, agent.work_dir)
    if workspace.repository is None:
        return workspace
    notes = list(workspace.notes)
    if run.cause is Cause.RECOVERY and run.follows_run is not None:
        notes += await anyio.to_thread.run_sync(_rescued, tower, workspace, run.follows_run)
    try:
        named = await tower.naming.name(workspace.root)
    except TowerError as error:
        return replace(workspace, notes=(*notes, f"what this run changes cannot be shown: {error}"))
    return replace(workspace, tree=named.tree, notes=(*notes, *named.notes))


async def watched(tower: Tower, workspace: Workspace) -> Workspace:
    """A snapshot with the name of its live tree, which nothing but a comparison afterwards protects."""
    try:
        named = await tower.naming.name(workspace.root)
    except TowerError as error:
        note = f"it cannot be seen whether this run changes the live tree: {error}"
        return replace(workspace, notes=(*workspace.notes, note))
    return replace(workspace, tree=named.tree)


async def name_after(tower: Tower, run: Run) -> tuple[str | None, tuple[str, ...]]:
    """The name of what a writer has left by now, and what a person should know of that; None where it has none."""
    if run.tree_before is None or run.workspace is None or run.workspace_kind not in WRITTEN:
        return None, ()
    try:
        return (await tower.naming.name(run.workspace)).tree, ()
    except TowerError as error:
        return None, (f"what this run changed cannot be shown: {error}",)


async def suspicion(tower: Tower, run: Run) -> tuple[str, ...]:
    """What is to be said when the live tree of a reader without a sandbox is not what it was, and no writer was there.

    All that it needs is on record, so that a restart of the tower meanwhile loses nothing.
    """
    if run.watched is None:
        return ()
    try:
        after = (await tower.naming.name(run.watched)).tree
    except TowerError as error:
        return (f"it cannot be seen whether this run changed the live tree: {error}",)
    # Asked afterwards: who begins to write from now on is not taken for the cause.
    wrote = await tower.store.read(partial(runs.written_since, since=run.claimed_at))
    if after == run.tree_before or any(_overlap(run.watched, other) for other in wrote):
        return ()
    return (
        f"the live tree {run.watched} changed while this run worked, and no writer was at work there: a person may"
        " have, or this agent, which no sandbox held",
    )


def not_of_the_tree(tower: Tower) -> tuple[str, ...]:
    """What is the tower's own, wherever it lies."""
    return str(tower.state.root), tower.factory.settings.snapshots_dir


def _overlap(one: str, other: str) -> bool:
    """Whether two folders are the same, or one lies in the other."""
    return Path(one).is_relative_to(other) or Path(other).is_relative_to(one)


def _rescued(tower: Tower, workspace: Workspace, before: str) -> list[str]:
    """Keep what the run `before` left; a note for each repository."""
    try:
        kept = rescue(workspace.root, before, store=str(tower.state.trees), exclude=not_of_the_tree(tower))
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
