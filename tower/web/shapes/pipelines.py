"""Pipelines: named ways in."""

from __future__ import annotations

from pydantic import Field

from tower.web.shapes.base import Shape


class Flag(Shape):
    default: bool
    description: str | None


class Choice(Shape):
    """What a pipeline's chains ask of an agent in place of its own; a key that is absent is the agent's."""

    model: str | None = None
    effort: str | None = None
    context: str | None = None
    args: list[str]


class Pipeline(Shape):
    """A named way in."""

    name: str
    description: str | None
    entry: str
    trigger: str = Field(examples=["manual"])
    priority: int
    body: str | None = Field(description="what is sent when nothing else is said")
    flags: dict[str, Flag]
    agents: dict[str, Choice]


class Pipelines(Shape):
    pipelines: list[Pipeline]
