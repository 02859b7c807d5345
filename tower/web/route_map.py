"""What the route map looks like as a document, for the API's description; see `shapes`."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class _Shape(BaseModel):
    model_config = ConfigDict(extra="forbid")


class WayIn(_Shape):
    """Where chains begin."""

    agent: str
    pipeline: str | None = Field(description="null: a person may send straight to the agent")
    description: str | None


class DrawnAgent(_Shape):
    """An agent as the route map shows it."""

    name: str
    runner: str
    model: str | None
    effort: str | None
    description: str | None
    access: str = Field(description="read-write or read-only")
    resident: bool
    enabled: bool
    approve: bool = Field(description="whether flights to it wait for a person")
    depth: int | None = Field(description="flights before it in its chain, at the fewest; null: nothing wakes it")


class DrawnJoin(_Shape):
    """A receiver that waits for its senders."""

    receiver: str
    when: str = Field(examples=["all", "2 of 3"])
    senders: list[str]


class DrawnRoute(_Shape):
    """Who may send to whom."""

    sender: str = Field(alias="from")
    to: str
    mode: str = Field(description="async or spawn")
    join: int | None = Field(description="index of the join that it ends at")
    pipelines: list[str] | None = Field(description="only their chains may use it; null: all that are shown")


class Graph(_Shape):
    """The route map."""

    pipeline: str | None
    ways_in: list[WayIn]
    agents: list[DrawnAgent]
    joins: list[DrawnJoin]
    routes: list[DrawnRoute]
