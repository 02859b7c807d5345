"""Pipelines: named ways into the factory, each with its entry agent, its flags, and what it asks of agents.

What a chain carries of its pipeline stands in its itinerary; which routes the pipeline opens is `routes`'.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tower.core.choices import Choice
from tower.core.errors import InvalidError

MAX_PRIORITY: Final = 100
"""Bound of priorities, on both sides of 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """A switch that holds for a whole chain; whoever starts the chain sets it, never an agent."""

    default: bool = False
    description: str | None = None


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
    own_worktrees: bool = False
    """Each of its chains works in a work tree of its own."""
    choices: Mapping[str, Choice] = field(default_factory=dict)
    """Agent -> what this pipeline's chains ask of it."""

    def settled(self, given: Mapping[str, bool]) -> dict[str, bool]:
        """The value of every declared flag, where `given` are the ones that were set. All of them are declared."""
        return {name: given.get(name, flag.default) for name, flag in self.flags.items()}


def flags_of(way_in: Pipeline | None, given: Mapping[str, bool]) -> dict[str, bool]:
    """The flags of a chain that begins in a pipeline, or in none. Raises `InvalidError` for one that it has not."""
    unknown = sorted(given.keys() - (way_in.flags.keys() if way_in else ()))
    if not unknown:
        return {} if way_in is None else way_in.settled(given)
    sentence = f"cannot set the flag {unknown[0][:80]!r}"
    if way_in is None:
        raise InvalidError(
            "unknown-flag", f"{sentence}: flags belong to a pipeline", "name the pipeline to send into, or no flag"
        )
    raise InvalidError(
        "unknown-flag",
        f"{sentence}: pipeline {way_in.name} does not declare it",
        f"it declares: {', '.join(sorted(way_in.flags)) or 'none'}",
    )
