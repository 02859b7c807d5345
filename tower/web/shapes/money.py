"""Costs, the Reserve, and runners that cannot work at the moment."""

from __future__ import annotations

from pydantic import Field

from tower.web.shapes.base import Shape, Time


class Reserve(Shape):
    """The money of the factory, in its rolling window."""

    limit_usd: float | None = Field(description="null: unlimited")
    window_hours: float
    spent_usd: float
    reserved_usd: float


class Circuit(Shape):
    """A runner that cannot work at the moment."""

    runner: str
    state: str = Field(description="open, or half open: one flight tries it")
    reason: str
    since: Time
    until: Time
    failures: int
    probe: str | None = Field(description="the run that tries it")


class RunnerReset(Shape):
    runner: str
    was_open: bool


class Spent(Shape):
    """What some runs cost together."""

    runs: int
    unreported: int
    cost: str = Field(description="as for an itinerary")
    cost_usd: float | None
    charged_usd: float = Field(description="what Fuel and Reserve were charged, unknown costs included")
    source: str | None


class SpentBy(Spent):
    name: str | None


class Costs(Shape):
    since: Time | None
    until: Time | None
    total: Spent
    by: dict[str, list[SpentBy]] = Field(description="agent, model, pipeline, day")
    reserve: Reserve
