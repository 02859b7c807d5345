"""Agents: their resolved records, and residents' processes."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from tower.core.residence import ResidentState
from tower.web.shapes.base import Shape, Time


class Agent(Shape):
    name: str
    description: str | None
    runner: str
    access: str
    entry: bool
    enabled: bool
    resident: bool
    paused_by: str | None = Field(description="who wants nothing to be started for it")
    recovery: str
    work_dir: str


class Value(Shape):
    """One key of the configuration."""

    value: Any
    origin: str = Field(description="agent, defaults, runner, file, a variable, ..., or built in: nobody said it")


class Resident(Shape):
    """An agent for which one process is kept, and that process."""

    agent: str
    state: ResidentState
    why: str | None = Field(description="how the last process ended, or why this one is to end")
    until: Time | None = Field(description="when the next one is started, after a failure")
    process: str | None
    since: Time | None
    turns: int | None
    run: str | None = Field(description="the turn under way")
    paused_by: str | None


class Variable(Shape):
    """A variable that is forwarded to an agent's runs; its value is never shown."""

    name: str
    declared_by: str = Field(description="the key of the configuration")
    is_set: bool


class AgentRecord(Agent):
    """All that is known of an agent."""

    values: dict[str, Value] = Field(description="every key of the file, with what it came to")
    process: Resident | None = Field(description="of a resident; null: it is none")
    enforced: list[str] = Field(description="what holds for its runs, in words")
    advisory: list[str] = Field(description="what it could do all the same, in words")
    variables: list[Variable]
    sends_to: list[str]
    woken_by: list[str] = Field(description="agents with a route to it")
    ways_in: list[str] = Field(description="how a chain can begin at it: person, and names of pipelines")


class Agents(Shape):
    agents: list[Agent]
