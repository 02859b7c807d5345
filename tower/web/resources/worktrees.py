"""`/worktrees`: the work trees of chains, why they stay, and their removal."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from tower.web import shapes
from tower.web.door import Asking, Door, Identity, Json

router = APIRouter(prefix="/worktrees", tags=["worktrees"])


class Removal(BaseModel):
    """How to remove one."""

    model_config = ConfigDict(extra="forbid")

    force: bool = Field(default=False, description="rescue what is not committed, and remove it all the same")


@router.get("", response_model=shapes.Worktrees)
async def listing(door: Door, caller: Asking) -> Json:
    """List the work trees of chains, oldest first."""
    return Json(await door.worktrees.listing(caller))


@router.delete("/{identity}", response_model=shapes.Worktrees)
async def remove(identity: Identity, how: Annotated[Removal, Query()], door: Door, caller: Asking) -> Json:
    """Remove the work trees of a chain; without `force` only when nothing can be lost by it."""
    return Json(await door.worktrees.remove(caller, identity, force=how.force))


@router.post("/{identity}/rescue", response_model=shapes.Rescued)
async def rescue(identity: Identity, door: Door, caller: Asking) -> Json:
    """Keep what is not committed there under a ref."""
    return Json(await door.worktrees.rescue(caller, identity))
