"""The factory as a whole: status and summary."""

from __future__ import annotations

from pydantic import Field

from tower.web.shapes.agents import Agent, Resident
from tower.web.shapes.base import Shape, Time
from tower.web.shapes.configuration import Generation, Problem
from tower.web.shapes.flights import Flight
from tower.web.shapes.money import Circuit, Costs, Reserve
from tower.web.shapes.runs import Run


class Health(Shape):
    status: str = Field(examples=["ok"])
    version: str


class Found(Shape):
    kind: str = Field(description="flight, itinerary or run")
    id: str


class GroundStop(Shape):
    since: Time
    by: str
    why: str


class Slots(Shape):
    used: int
    of: int


class Queue(Shape):
    queued: int
    held: int
    parked: int
    halted: int


class Status(Shape):
    """One screen of truth."""

    version: str
    pid: int
    started_at: Time
    state: str = Field(description="running, draining or stopping")
    well: bool = Field(description="nothing waits for a person")
    generation: Generation
    ground_stop: GroundStop | None
    slots: Slots
    reserve: Reserve
    circuits: list[Circuit]
    queue: Queue
    runs: list[Run]
    holds: list[Flight]
    problems: list[Problem]
    needs_restart: list[str]
    warnings: list[str]
    agents: list[Agent]
    residents: list[Resident]
    help: int = Field(description="requests for help that are open")


class Summary(Shape):
    """What happened since a time, and what waits for a person."""

    since: Time
    outcomes: dict[str, int] = Field(description="how many runs ended how")
    alive: int
    costs: Costs
    troubles: list[Run] = Field(description="runs that did not end well, newest first")
    changed: list[Run] = Field(description="runs that changed their tree, newest first")
    waiting: list[Flight]
    help: int
    circuits: list[Circuit]
    ground_stop: str | None


class Recovered(Shape):
    recovered: int
