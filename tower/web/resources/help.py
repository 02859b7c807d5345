"""`/help`: what runs want a person to know or to do."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from tower.web import shapes
from tower.web.door import Asking, Door, Identity, Json, Text

router = APIRouter(prefix="/help", tags=["help"])


class Selection(BaseModel):
    """Which requests."""

    model_config = ConfigDict(extra="forbid")

    all: bool = Field(default=False, description="those that are resolved too")
    agent: str | None = Field(default=None, max_length=200)
    limit: int = Field(default=100, ge=1, le=10_000)


class Resolution(BaseModel):
    """That somebody has seen to it."""

    model_config = ConfigDict(extra="forbid", strict=True)

    note: Text | None = Field(default=None, description="what was done, for the record")


@router.get("", response_model=shapes.HelpRequests)
async def listing(selection: Annotated[Selection, Query()], door: Door, caller: Asking) -> Json:
    """List requests for help, newest first: the open ones, or all."""
    return Json(await door.help.listing(caller, every=selection.all, agent=selection.agent, limit=selection.limit))


@router.get("/{identity}", response_model=shapes.HelpRequest)
async def show(identity: Identity, door: Door, caller: Asking) -> Json:
    """Show one request for help."""
    return Json(await door.help.show(caller, identity))


@router.post("/{identity}/resolve", response_model=shapes.HelpRequest)
async def resolve(identity: Identity, wanted: Resolution, door: Door, caller: Asking) -> Json:
    """Close a request for help; a chain that waited for it does not any more."""
    return Json(await door.help.resolve(caller, identity, note=wanted.note))
