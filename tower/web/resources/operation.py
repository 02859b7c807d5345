"""`/reload`, `/ground-stop`, `/drain`: the whole tower's hand wheels."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from tower.web import shapes
from tower.web.door import Asking, Door, Json, Text

router = APIRouter(tags=["operation"])


class GroundStop(BaseModel):
    """Why everything is to stop."""

    model_config = ConfigDict(extra="forbid", strict=True)

    why: Text = Field(max_length=2000)


@router.post("/reload", response_model=shapes.Reloaded)
async def reload(door: Door, caller: Asking) -> Json:
    """Look at the configuration now; answered when it is live, or with what is wrong with it."""
    return Json(await door.factory.reload(caller))


@router.get("/config/diff", response_model=shapes.Compared)
async def compare(door: Door, caller: Asking) -> Json:
    """What a reload would change, agent by agent; nothing is."""
    return Json(await door.factory.compare(caller))


@router.post("/ground-stop", response_model=shapes.Status)
async def engage(wanted: GroundStop, door: Door, caller: Asking) -> Json:
    """Engage the kill switch: nothing starts, sends are held, runs are ended. Engaging twice is fine."""
    return Json(await door.factory.ground_stop_on(caller, wanted.why))


@router.delete("/ground-stop", response_model=shapes.Status)
async def release(door: Door, caller: Asking) -> Json:
    """Release it: held flights go on; the runs that it ended do not start again on their own."""
    return Json(await door.factory.ground_stop_off(caller))


@router.post("/recover-halted", response_model=shapes.Recovered)
async def recover_halted(door: Door, caller: Asking) -> Json:
    """Start again what ground stops ended, on a person's word."""
    return Json(await door.runs.recover_halted(caller))


@router.post("/drain", response_model=shapes.Status)
async def drain(door: Door, caller: Asking) -> Json:
    """Start nothing more; what runs may end."""
    return Json(await door.factory.drain(caller, on=True))


@router.delete("/drain", response_model=shapes.Status)
async def resume(door: Door, caller: Asking) -> Json:
    """Start again what waits."""
    return Json(await door.factory.drain(caller, on=False))
