"""Work trees of chains, and what was rescued."""

from __future__ import annotations

from pydantic import Field

from tower.web.shapes.base import Shape, Time


class Worktree(Shape):
    """The work tree of a chain."""

    itinerary: str
    live: str = Field(description="top folder of the repository that it belongs to")
    path: str
    branch: str
    made_at: Time
    in_use: bool
    kept: str | None = Field(description="why it was not removed when it was looked at last")


class Worktrees(Shape):
    worktrees: list[Worktree]


class RescuedTree(Shape):
    path: str
    ref: str


class Rescued(Shape):
    rescued: list[RescuedTree]
