"""Routes: directed permissions between agents, and which of them one chain may use.

A `[[routes]]` entry is expanded into one `Route` for each pair of its ends. What a send along one makes is left to
`control.sending`, what becomes of a delivery at a join to `joins`, how far flights can get to `reach`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class RouteMode(StrEnum):
    """Whether a flight along a route belongs to its sender's chain, or opens a chain of its own."""

    ASYNC = "async"
    SPAWN = "spawn"


class JoinKind(StrEnum):
    """When a receiver that is joined is woken."""

    ALL = "all"
    """When all named senders have delivered."""
    ANY = "any"
    """By the first delivery; the others of its wave are superseded."""
    QUORUM = "quorum"
    """When so many as `Join.count` have delivered."""
    SETTLED = "settled"
    """When somebody has delivered, and nothing can still reach the barrier."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """The barrier before a receiver: it wakes once, when the named senders have delivered."""

    kind: JoinKind
    senders: tuple[str, ...]
    """The only ones that it constrains, in the order of `from`, at least two."""
    count: int | None = None
    """For a quorum, 1 to the number of senders."""
    timeout_sec: float | None = None
    """After which what has not come is not waited for any more, counted from the first delivery of a wave."""
    accept_suspect: bool = False
    """Whether what a suspect run delivered counts."""

    @property
    def needed(self) -> int:
        """How many deliveries can open it."""
        if self.count is not None:
            return self.count
        return len(self.senders) if self.kind is JoinKind.ALL else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What decides which routes a chain may use."""

    pipeline: str | None = None
    """None: a person sent straight to an entry agent, and global routes alone serve the chain."""
    narrowing: frozenset[str] = frozenset()
    """Pipelines that must permit a route as well (a resumed layover keeps those of the chain that booked it)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A directed permission: who may send to whom."""

    sender: str
    receiver: str
    mode: RouteMode = RouteMode.ASYNC
    join: Join | None = None
    """What its flights are parked at; None: each wakes the receiver."""
    pipelines: frozenset[str] | None = None
    """Only chains of these pipelines may use it; None: every chain."""

    def serves(self, scope: Scope) -> bool:
        """Whether a chain of this scope may use the route."""
        if self.pipelines is None:
            return True
        return scope.pipeline in self.pipelines and self.pipelines.issuperset(scope.narrowing)

    def overlaps(self, other: Route) -> bool:
        """Whether one chain may use both."""
        return self.pipelines is None or other.pipelines is None or not self.pipelines.isdisjoint(other.pipelines)


def usable(routes: Iterable[Route], scope: Scope) -> tuple[Route, ...]:
    """The routes that serve a chain, in their order."""
    return tuple(route for route in routes if route.serves(scope))
