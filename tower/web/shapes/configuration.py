"""The configuration: what is wrong with it, and what a reload does."""

from __future__ import annotations

from pydantic import Field

from tower.core.consequences import Change, ProcessChange
from tower.web.shapes.base import Shape, Time


class Problem(Shape):
    """One thing that is wrong with the configuration."""

    file: str
    line: int | None
    column: int | None
    key: str | None
    sentence: str
    hint: str
    severity: str


class Generation(Shape):
    number: int
    digest: str
    loaded_at: Time
    path: str


class Consequence(Shape):
    """What a reload would do to an agent."""

    name: str
    change: Change
    process: ProcessChange | None = Field(description="what becomes of a resident's; null: it is none")
    held: int = Field(description="flights that wait for it and would be held")


class Compared(Shape):
    """What a reload would change."""

    generation: int
    path: str
    changes: list[str]
    problems: list[Problem]
    needs_restart: list[str]
    agents: list[Consequence]


class Reloaded(Shape):
    changed: bool
    generation: int
    changes: list[str]
    problems: list[Problem]
    needs_restart: list[str]
