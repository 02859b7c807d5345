"""`/costs`, and what people say of holds: refuel, approve, reject, reset a runner."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from tower.web import shapes
from tower.web.door import Asking, Door, Identity, Json, Text
from tower.web.resources.flights import Moment

router = APIRouter(tags=["money"])


class Refuel(BaseModel):
    """How much more a chain may spend."""

    model_config = ConfigDict(extra="forbid", strict=True)

    usd: float | Annotated[Text, Field(max_length=40)] = Field(description="dollars, as a number or text")


class Approval(BaseModel):
    """A person lets a flight go."""

    model_config = ConfigDict(extra="forbid", strict=True)

    note: Text | None = Field(default=None, max_length=10_000, description="words that are added below its body")


class Rejection(BaseModel):
    """A person refuses a flight."""

    model_config = ConfigDict(extra="forbid", strict=True)

    why: Text = Field(min_length=1, max_length=2000)


class Span(BaseModel):
    """Which runs, by when they ended."""

    model_config = ConfigDict(extra="forbid")

    since: Moment | None = None
    until: Moment | None = None


@router.post("/itineraries/{identity}/refuel", response_model=shapes.Itinerary)
async def refuel(identity: Identity, wanted: Refuel, door: Door, caller: Asking) -> Json:
    """Add dollars to its Fuel; flights that were held for it go on, as far as it can pay for them."""
    return Json(await door.money.refuel(caller, identity, wanted.usd))


@router.post("/flights/{identity}/approve", response_model=shapes.Flight)
async def approve(identity: Identity, wanted: Approval, door: Door, caller: Asking) -> Json:
    """Let it go to an agent that has `approve = true`."""
    return Json(await door.money.approve(caller, identity, note=wanted.note))


@router.post("/flights/{identity}/reject", response_model=shapes.Flight)
async def reject(identity: Identity, wanted: Rejection, door: Door, caller: Asking) -> Json:
    """Refuse it; the chain that sent it is told."""
    return Json(await door.money.reject(caller, identity, why=wanted.why))


@router.post("/runners/{name:path}/reset", response_model=shapes.RunnerReset)
async def reset(name: Identity, door: Door, caller: Asking) -> Json:
    """Use a runner again at once that could not work."""
    return Json(await door.money.reset_runner(caller, name))


@router.get("/costs", response_model=shapes.Costs)
async def costs(span: Annotated[Span, Query()], door: Door, caller: Asking) -> Json:
    """What runs cost: together, by agent, model, pipeline and day; and the Reserve."""
    return Json(await door.money.costs(caller, since=span.since, until=span.until))
