"""Pipelines: named ways into the factory, each with its entry agent, its flags, and what it asks of agents.

What a chain carries of its pipeline stands in its itinerary; which routes the pipeline opens is `routes`'.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

MAX_PRIORITY: Final = 100
"""Bound of priorities, on both sides of 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """A switch that holds for a whole chain; whoever starts the chain sets it, never an agent."""

    default: bool = False
    description: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What the chains of one pipeline ask of an agent's runner in place of the agent's own."""

    values: Mapping[str, str | None] = field(default_factory=dict)
    """`model`, `effort` and `context`, where they are set; None is an explicit none."""
    args: tuple[str, ...] = ()
    """Added after the agent's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """`[pipelines.NAME]`."""

    name: str
    entry: str
    description: str | None = None
    priority: int = 0
    body: str | None = None
    """What its first flight says when nobody says anything else."""
    flags: Mapping[str, Flag] = field(default_factory=dict)
    choices: Mapping[str, Choice] = field(default_factory=dict)
    """Agent -> what this pipeline's chains ask of it."""

    def settled(self, given: Mapping[str, bool]) -> dict[str, bool]:
        """The value of every declared flag, where `given` are the ones that were set. All of them are declared."""
        return {name: given.get(name, flag.default) for name, flag in self.flags.items()}
