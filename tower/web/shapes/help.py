"""What runs want of a person."""

from __future__ import annotations

from pydantic import Field

from tower.web.shapes.base import Shape, Time


class HelpRequest(Shape):
    """What a run wants a person to know or to do."""

    id: str
    run: str
    itinerary: str
    agent: str
    at: Time
    blocker: str = Field(description="access, environment, ambiguity, dependency, tooling or other")
    summary: str
    detail: str
    fatal: bool = Field(description="the run could not go on; its itinerary waits")
    state: str = Field(description="open or resolved")
    resolved_at: Time | None
    resolved_by: str | None
    note: str | None


class HelpRequests(Shape):
    help: list[HelpRequest]
