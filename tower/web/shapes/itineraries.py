"""Itineraries: chains of flights with their money and their joins."""

from __future__ import annotations

from pydantic import Field

from tower.core.joins import Standing
from tower.web.shapes.base import Shape, Time
from tower.web.shapes.flights import Flight
from tower.web.shapes.help import HelpRequest
from tower.web.shapes.pipelines import Choice
from tower.web.shapes.runs import Run


class Fuel(Shape):
    """The money of a chain."""

    limit_usd: float
    spent_usd: float = Field(description="what stands for unknown costs included")
    reserved_usd: float = Field(description="set aside for runs under way")
    overshot_at: Time | None = Field(description="when what it spent first passed its limit")


class Itinerary(Shape):
    """The chain of flights that one trigger caused."""

    id: str
    name: str | None
    pipeline: str | None
    flags: dict[str, bool] = Field(description="of its pipeline; they hold for the whole chain")
    choices: dict[str, Choice] = Field(description="agent to what its sender chose for it, over the agent's own")
    parent: str | None = Field(description="the itinerary from which a run opened this one")
    state: str = Field(description="working, held, waiting, stalled, halted, finished, cancelled or interrupted")
    created_at: Time
    max_hops: int
    max_runs: int
    runs_started: int
    cost: str | None = Field(
        description="`$1.20`; `$1.20+` when a run in it is unknown; `not reported` when all are; null before the first"
    )
    cost_usd: float | None = Field(description="what was reported; null when nothing was")
    cost_source: str | None = Field(description="the weakest one in it")
    unreported_runs: int
    fuel: Fuel


class Itineraries(Shape):
    itineraries: list[Itinerary]


class Delivery(Shape):
    flight: str
    sender: str
    counts: Standing = Field(description="pending: the run that sent it is not over")


class JoinOfChain(Shape):
    """A join to which something was delivered."""

    receiver: str
    join: str | int = Field(description="all, any, settled, or how many")
    from_: list[str] = Field(alias="from")
    wave: int
    parked: list[Delivery]
    missing: list[str]
    given_up: bool
    due_at: Time | None = Field(description="when it is given up at the latest")
    words: str | None = Field(description="what it waits for; null while nothing is parked")


class Story(Itinerary):
    flights: list[Flight]
    joins: list[JoinOfChain]
    runs: list[Run]
    help: list[HelpRequest] = Field(description="what its runs want of a person, the open ones")
    seq: int = Field(description="the newest event that concerns it; `after` for the next question")
