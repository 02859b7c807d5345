"""Work trees of chains: made when a chain of such a pipeline first needs one, removed when nothing can be lost by it.

Making one is `system.worktree`'s, looking into it `system.worktree_removal`'s, the records `store.worktrees`'.
"""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Final

import anyio
import anyio.to_thread

from tower.core.errors import BusyError, ConflictError, TowerError
from tower.core.records import WorktreeRecord
from tower.engine.tower import LiveRun, Tower, log
from tower.engine.trees import not_of_the_tree
from tower.store import events, worktrees
from tower.store.database import Connection
from tower.system.repository import find_repository
from tower.system.rescue import rescue
from tower.system.worktree import Worktree, make_worktree
from tower.system.worktree_removal import remove_worktree, why_kept, why_lost

EVERY_SEC: Final = 600.0
"""Hours are counted."""

_making = Lock()
"""Two runs of one chain may need its work tree at once."""


async def enter(tower: Tower, live: LiveRun) -> tuple[str, ...]:
    """Have a run work in the work tree of its chain, made where it is missing; what is to be known of it.

    Raises `TowerError` when it cannot be made.
    """
    agent, itinerary = live.agent, live.run.itinerary
    top = (await anyio.to_thread.run_sync(find_repository, agent.work_dir)).top
    known = await tower.store.read(partial(worktrees.listing, itinerary=itinerary))
    record = next((one for one in known if one.live == top), None)
    if record is None:
        number = f"-{len(known) + 1}" if known else ""
        record = WorktreeRecord(
            itinerary=itinerary,
            live=top,
            path=str(tower.state.worktrees / f"{itinerary}{number}"),
            branch=f"tower/{itinerary}",
            base=None,
            made_at=tower.clock(),
        )
        # Written down first: what a crash leaves half made is found by it.
        await tower.store.write(partial(worktrees.insert, worktree=record))
    made = await anyio.to_thread.run_sync(_make, record)
    below = os.path.relpath(os.path.realpath(agent.work_dir), top)
    place = os.path.normpath(Path(record.path, below))
    if not Path(place).is_dir():
        raise TowerError(
            "worktree",
            f"cannot start {agent.name}: its folder {below} is not in the commit that work tree {record.path} has",
            'commit it, or let the pipeline have workspace = "shared"',
        )
    live.agent = replace(agent, work_dir=place)
    live.has_own_worktree = True
    return made.notes


def _make(record: WorktreeRecord) -> Worktree:
    with _making:
        return make_worktree(record.live, record.path, record.branch)


async def keep(tower: Tower) -> None:
    """Remove work trees of chains that are over, for ever; those in which something could be lost stay."""
    while True:
        try:
            await look(tower)
        except BusyError as error:
            log.warning("worktrees.not-looked-at", error=str(error))
        await anyio.sleep(EVERY_SEC)


async def look(tower: Tower) -> None:
    """One look at every work tree. Raises `BusyError`."""
    before = tower.clock() - tower.factory.settings.keep_worktrees_sec
    for record in await tower.store.read(worktrees.listing):
        if not await tower.store.read(partial(worktrees.is_in_use, itinerary=record.itinerary, since=before)):
            await _remove_or_keep(tower, record)


async def remove(tower: Tower, record: WorktreeRecord, *, force: bool) -> None:
    """Remove a work tree on a person's word, however young it is.

    With `force`, what is not committed is rescued first, and the branch stays where commits need it. Raises
    `ConflictError` when something speaks against it.
    """
    if any(live.run.itinerary == record.itinerary for live in tower.live.values()):
        raise ConflictError(
            "in-use", f"cannot remove the work tree of {record.itinerary}: a run works in it", "cancel that first"
        )
    if force:
        lost = await anyio.to_thread.run_sync(_why_lost, record)
        if lost is not None:
            raise ConflictError(
                "worktree-kept",
                f"cannot remove the work tree of {record.itinerary}: {lost}, and no rescue can keep that",
                "push it, or move that folder out of the work tree",
            )
        await keep_uncommitted(tower, record)
        await _remove(tower, record)
        return
    why = await _remove_or_keep(tower, record)
    if why is not None:
        raise ConflictError(
            "worktree-kept",
            f"cannot remove the work tree of {record.itinerary}: {why}",
            "commit or merge it; with --force what is not committed is rescued, and the branch stays",
        )


async def keep_uncommitted(tower: Tower, record: WorktreeRecord) -> bool:
    """Keep what is not committed in a work tree under `refs/tower/rescue/ITINERARY`; whether there was anything."""
    if not Path(record.path).exists():
        return False
    save = partial(rescue, record.path, record.itinerary, store=str(tower.state.trees), exclude=not_of_the_tree(tower))
    return bool(await anyio.to_thread.run_sync(save))


async def _remove_or_keep(tower: Tower, record: WorktreeRecord) -> str | None:
    """Remove it on proof that nothing is lost; else the reason is written down, and returned."""
    try:
        why = await anyio.to_thread.run_sync(_why_kept, record)
        if why is None:
            await _remove(tower, record)
            return None
    except BusyError:
        raise
    except TowerError as error:
        why = str(error)
    await tower.store.write(partial(worktrees.keep, worktree=record, why=why))
    return why


def _why_kept(record: WorktreeRecord) -> str | None:
    return why_kept(record.live, record.path, record.branch) if Path(record.path).exists() else None


def _why_lost(record: WorktreeRecord) -> str | None:
    return why_lost(record.live, record.path) if Path(record.path).exists() else None


async def _remove(tower: Tower, record: WorktreeRecord) -> None:
    problem = await anyio.to_thread.run_sync(remove_worktree, record.live, record.path, record.branch)
    if problem:
        log.warning("worktree.left", path=record.path, problem=problem)

    def forget(connection: Connection) -> None:
        worktrees.delete(connection, record)
        told = tower.event("worktree.removed", itinerary=record.itinerary, path=record.path, branch=record.branch)
        events.append(connection, told)

    await tower.store.write(forget)
