"""`/health`, `/status`, `/find`: is it alive, is it well, what is this id."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict

from tower import __version__
from tower.web import shapes
from tower.web.door import Asking, Door, Identity, Json
from tower.web.resources.flights import Moment

router = APIRouter(tags=["status"])


@router.get("/health", response_model=shapes.Health)
async def health() -> Json:
    """Whether the tower lives and answers; a flight that waits for a person is not ill."""
    return Json({"status": "ok", "version": __version__})


@router.get("/status", response_model=shapes.Status)
async def status(door: Door, caller: Asking) -> Json:
    """One screen of truth: generation, runs, queue, holds, ground stop, problems."""
    return Json(await door.factory.status(caller))


@router.get("/find/{identity}", response_model=shapes.Found)
async def find(identity: Identity, door: Door, caller: Asking) -> Json:
    """What an id, or the end of one, names."""
    return Json(await door.factory.find(caller, identity))


class Since(BaseModel):
    """From when on."""

    model_config = ConfigDict(extra="forbid")

    since: Moment


@router.get("/summary", response_model=shapes.Summary)
async def summary(span: Annotated[Since, Query()], door: Door, caller: Asking) -> Json:
    """How runs ended since a time, what they cost and changed, and what waits for a person."""
    return Json(await door.factory.summary(caller, span.since))
