"""`/pipelines`: the named ways in."""

from __future__ import annotations

from fastapi import APIRouter

from tower.web import shapes
from tower.web.door import Asking, Door, Json

router = APIRouter(prefix="/pipelines", tags=["pipelines"])


@router.get("", response_model=shapes.Pipelines)
async def listing(door: Door, caller: Asking) -> Json:
    """The pipelines of the live generation, with the flags that each declares."""
    return Json(await door.factory.pipelines(caller))
