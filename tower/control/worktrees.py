"""Verbs on the work trees of chains: list, remove, rescue."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tower.control import views
from tower.control.rights import require_person
from tower.core.callers import Caller
from tower.core.errors import NotFoundError
from tower.core.records import WorktreeRecord
from tower.engine import worktrees
from tower.engine.tower import Tower
from tower.store import worktrees as stored


@dataclass(frozen=True, slots=True)
class WorktreeVerbs:
    """What can be done with work trees."""

    tower: Tower

    async def listing(self, caller: Caller) -> views.View:
        """All work trees, oldest first, each with why it stays."""
        require_person(caller, "list work trees")
        found = await self.tower.store.read(stored.listing)
        working = {live.run.itinerary for live in self.tower.live.values()}
        return {"worktrees": [views.worktree(one, is_used=one.itinerary in working) for one in found]}

    async def remove(self, caller: Caller, text: str, *, force: bool) -> views.View:
        """Remove the work trees of a chain; without `force` only when nothing can be lost by it.

        Raises `ConflictError` that says what would be lost.
        """
        require_person(caller, "remove a work tree")
        found = await self._find(text)
        for record in found:
            await worktrees.remove(self.tower, record, force=force)
        return {"worktrees": [views.worktree(one, is_used=False) for one in found]}

    async def rescue(self, caller: Caller, text: str) -> views.View:
        """Keep what is not committed in the work trees of a chain under a ref of their repositories."""
        require_person(caller, "rescue a work tree")
        found = await self._find(text)
        kept = [one for one in found if await worktrees.keep_uncommitted(self.tower, one)]
        return {"rescued": [{"path": one.path, "ref": f"refs/tower/rescue/{one.itinerary}"} for one in kept]}

    async def _find(self, text: str) -> list[WorktreeRecord]:
        """Those of one chain, named by any end of its id, or by the name of the folder of one."""
        every = await self.tower.store.read(stored.listing)
        named = [
            one for one in every if one.itinerary.endswith(text) or one.path == text or Path(one.path).name == text
        ]
        if not text or len({one.itinerary for one in named}) != 1:
            why = "several have" if named else "none has"
            raise NotFoundError(
                "no-worktree",
                f"cannot tell which work tree {text!r} is: {why} that name",
                "`tower worktrees` lists them",
            )
        return named
