"""`/agents`: who there is, and what one would be told."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from tower.web import shapes
from tower.web.door import Asking, Door, Identity, Json, plain
from tower.web.resources.runs import TEXT

router = APIRouter(prefix="/agents", tags=["agents"])


class Preview(BaseModel):
    """What a run would be woken with."""

    model_config = ConfigDict(extra="forbid")

    body: str = Field(default="", description="the body of the flight (message)")


@router.get("", response_model=shapes.Agents)
async def listing(door: Door, caller: Asking) -> Json:
    """The agents of the live generation."""
    return Json(await door.factory.agents(caller))


@router.get("/{name}", response_model=shapes.AgentRecord)
async def show(name: Identity, door: Door, caller: Asking) -> Json:
    """One agent: every value with where it came from, and a resident's process."""
    return Json(await door.factory.agent(caller, name))


@router.get("/{name}/prompt", response_class=Response, responses=TEXT)
async def prompt(name: Identity, preview: Annotated[Preview, Query()], door: Door, caller: Asking) -> Response:
    """Exactly what a run of this agent would be told; nothing is started."""
    return plain(await door.factory.prompt(caller, name, preview.body))


@router.post("/{name}/restart", response_model=shapes.Agent)
async def restart(name: Identity, door: Door, caller: Asking) -> Json:
    """Replace the process of a resident after its turn; one that was quarantined is tried again."""
    return Json(await door.factory.restart_agent(caller, name))


@router.post("/{name}/pause", response_model=shapes.Agent)
async def pause(name: Identity, door: Door, caller: Asking) -> Json:
    """Start nothing for this agent any more; its flights wait, and what runs goes on."""
    return Json(await door.factory.pause_agent(caller, name, on=True))


@router.post("/{name}/resume", response_model=shapes.Agent)
async def resume(name: Identity, door: Door, caller: Asking) -> Json:
    """Start what waits for this agent again."""
    return Json(await door.factory.pause_agent(caller, name, on=False))
