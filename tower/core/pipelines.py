"""Pipelines: named ways into the factory, each with its entry agent, trigger and boolean flags."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Overlap(StrEnum):
    """What a tick does while the pipeline's last wave is still under way."""

    SKIP = "skip"
    ALLOW = "allow"
    QUEUE = "queue"


class ChainWorkspace(StrEnum):
    """Where a chain's writers work: the live tree, or a worktree that belongs to the chain."""

    SHARED = "shared"
    PER_ITINERARY = "per-itinerary"


class TriggerKind(StrEnum):
    """What starts a pipeline."""

    MANUAL = "manual"
    EVERY = "every"
    CRON = "cron"
    WATCH = "watch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """What starts a pipeline; the fields of the other kinds are None."""

    kind: TriggerKind = TriggerKind.MANUAL
    every_sec: float | None = None
    cron: str | None = None
    tz: str | None = None
    watch: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """A switch that holds for a whole chain; a person or the clock sets it, never an agent."""

    default: bool = False
    description: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What one chain asks of an agent's runner in place of the agent's own; None: as the agent says."""

    model: str | None = None
    effort: str | None = None
    context: str | None = None
    args: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """`[pipelines.NAME]`."""

    name: str
    entry: str
    description: str | None = None
    trigger: Trigger = Trigger()
    overlap: Overlap = Overlap.SKIP
    resumes: bool = False
    workspace: ChainWorkspace = ChainWorkspace.SHARED
    priority: int = 0
    body: str | None = None
    """What a flight says that the clock starts; a person may leave theirs out as well then."""
    flags: Mapping[str, Flag] = field(default_factory=dict)
    choices: Mapping[str, Choice] = field(default_factory=dict)
    """Agent -> what this pipeline's chains ask of it."""
