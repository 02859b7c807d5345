"""`/itineraries`: chains as stories. List, show (and wait for news), release a join, cancel."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from tower.web import shapes
from tower.web.door import Asking, Door, Identity, Json, Text
from tower.web.stream import while_wanted

router = APIRouter(prefix="/itineraries", tags=["itineraries"])


class Selection(BaseModel):
    """Which itineraries."""

    model_config = ConfigDict(extra="forbid")

    limit: int = Field(default=100, ge=1, le=10_000)


class News(BaseModel):
    """How long to wait for which news."""

    model_config = ConfigDict(extra="forbid")

    wait: float = Field(default=0, ge=0, le=60, description="seconds that the answer may be held back for news")
    after: int = Field(default=0, ge=0, lt=1 << 63, description="`seq` of the answer before: only later news count")


@router.get("", response_model=shapes.Itineraries)
async def listing(selection: Annotated[Selection, Query()], door: Door, caller: Asking) -> Json:
    """The itineraries (chains) that began last."""
    return Json(await door.itineraries.listing(caller, limit=selection.limit))


@router.get("/{identity}", response_model=shapes.Story)
async def show(
    identity: Identity, news: Annotated[News, Query()], request: Request, door: Door, caller: Asking
) -> Json:
    """One itinerary with its flights and runs in order; with `wait`, as soon as there is news of it."""
    return Json(
        await while_wanted(request, lambda: door.itineraries.show(caller, identity, wait=news.wait, after=news.after))
    )


@router.post("/{identity}/cancel", response_model=shapes.Story)
async def cancel(identity: Identity, door: Door, caller: Asking) -> Json:
    """End it: what waits is cancelled, what runs is asked to end."""
    return Json(await door.itineraries.cancel(caller, identity))


class Release(BaseModel):
    """Which join to open."""

    model_config = ConfigDict(extra="forbid", strict=True)

    agent: Text = Field(max_length=200, description="the receiver that is to wake with what is parked before it")


@router.post("/{identity}/release", response_model=shapes.Story)
async def release(identity: Identity, wanted: Release, door: Door, caller: Asking) -> Json:
    """Wake a receiver with what has been delivered to its join, though somebody is missing."""
    return Json(await door.itineraries.release(caller, identity, wanted.agent))
