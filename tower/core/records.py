"""What the tower keeps about its work: flights, itineraries, runs, processes, events.

Plain values, one per row of the store. Times are seconds since the Unix epoch (UTC), money is integer
micro-dollars, sizes are bytes. Unknown is `None`, never 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tower.core.choices import Choice
from tower.core.routes import Scope
from tower.core.states import Cause, FlightState, HeldReason, Interruption, Outcome, RunState


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """Who sent a flight, by the tower's record.

    `kind` is person, agent, schedule, layover, recovery, steer or reply.
    """

    kind: str
    name: str
    ref: str | None = None
    """The run (for agents) or other id that the sending came from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flight:
    """One message to one agent; its arrival is what starts the agent."""

    id: str
    itinerary: str
    sender: Sender
    receiver: str
    body: str
    created_at: float
    state: FlightState = FlightState.QUEUED
    hops_remaining: int = 0
    priority: int = 0
    key: str | None = None
    not_before: float | None = None
    held_reason: HeldReason | None = None
    reason: str | None = None
    """In words: why it is held, refused, dead; and what changes that."""
    release_at: float | None = None
    attempt: int = 1
    """The number that its next run will carry."""
    cause: Cause = Cause.DISPATCH
    """Why its next run will be started."""
    follows_run: str | None = None
    """The run that its next run takes over from."""
    joined: str | None = None
    """The first of the flights that a join released together with it, which stands in line for all of them."""
    note: str | None = None
    """What the person who released or restarted it wrote, for its next run."""
    outcome: Outcome | None = None
    ended_at: float | None = None
    approved_at: float | None = None
    approved_by: str | None = None
    """Who let it go to an agent that people guard."""
    approval_note: str | None = None
    """What that person added to it."""

    @property
    def told(self) -> str:
        """What its receiver is told: its body, and below it what the person said who let it go."""
        if not self.approval_note:
            return self.body
        return f"{self.body}\n\nNote of {self.approved_by}, who approved this message:\n\n{self.approval_note}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Itinerary:
    """The chain of flights that one trigger caused, with every budget it carries."""

    id: str
    created_at: float
    max_hops: int
    max_runs: int
    fuel_limit: int
    """Micro-dollars."""
    name: str | None = None
    pipeline: str | None = None
    flags: Mapping[str, bool] = field(default_factory=dict)
    choices: Mapping[str, Choice] = field(default_factory=dict)
    """Agent -> what the sender asked of it for this chain."""
    fuel_spent: int = 0
    fuel_reserved: int = 0
    runs_started: int = 0
    spawn_generation: int = 0
    parent: str | None = None
    narrowing: tuple[str, ...] | None = None
    cancelled_at: float | None = None
    overshot_at: float | None = None
    """When what it spent first passed its limit."""

    @property
    def scope(self) -> Scope:
        """Which routes it may use."""
        return Scope(pipeline=self.pipeline, narrowing=frozenset(self.narrowing or ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Wave:
    """How far the barrier of a join has come in one chain; see `core.joins`."""

    itinerary: str
    receiver: str
    number: int = 1
    answered: frozenset[str] = frozenset()
    since: float | None = None
    is_given_up: bool = False
    woke_with: str | None = None
    """The first of the flights that it let through last."""
    due_at: float | None = None


RUN_PROCESS: Final = "run"
RESIDENT_PROCESS: Final = "resident"
"""What a process is for: one run, or the turns of a resident agent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One keeper and the agent program under it. A transient run has one; a resident's turns share one."""

    id: str
    agent: str
    folder: str
    created_at: float
    keeper_pid: int | None = None
    keeper_ticks: int | None = None
    """Start time of the keeper in clock ticks since boot: with pid and boot id it names a process for good."""
    boot_id: str | None = None
    pid: int | None = None
    pid_ticks: int | None = None
    protocol: int | None = None
    cgroup: str | None = None
    """Control group of the program and all that it starts; before a start the one that is to be made."""
    ended_at: float | None = None
    last_seen_at: float | None = None
    kind: str = RUN_PROCESS
    runner: str | None = None
    """Of a resident, as the next four."""
    generation: int | None = None
    fingerprint: str | None = None
    """Of the agent and runner that it was started with; see `core.residence`."""
    token_sha256: str | None = None
    """A resident's token belongs to its process, and stands for the turn under way."""
    session: str | None = None
    """What the program calls its conversation."""
    turns: int = 0
    """How many were begun."""
    exited: bool = False
    """It ended without being asked to."""
    reason: str | None = None
    """Why it ended, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One supervised execution, with all that is needed to settle it after a crash."""

    id: str
    agent: str
    runner: str
    generation: int
    itinerary: str
    process: str
    state: RunState
    attempt: int
    cause: Cause
    number: int
    """This is the agent's n-th run in this state folder, counting from 1."""
    queued_at: float
    claimed_at: float
    flights: tuple[str, ...] = ()
    follows_run: str | None = None
    started_at: float | None = None
    ended_at: float | None = None
    prompt_sha256: str | None = None
    """Of its agent's instructions as its chain's flags have them, before placeholders are filled in."""
    prompt_files: Mapping[str, str] = field(default_factory=dict)
    """The files that these were made of: absolute path -> SHA-256 of its text."""
    payload_sha256: str | None = None
    payload_bytes: int | None = None
    estimate_tokens: int | None = None
    token_sha256: str | None = None
    model_asked: str | None = None
    model: str | None = None
    effort: str | None = None
    """On the scale of `effort`, as it was asked for."""
    effort_sent: str | None = None
    """What the program was told, in its own words; None when it has none for it."""
    tier: str | None = None
    context: str | None = None
    tokens_in: int | None = None
    tokens_cached: int | None = None
    tokens_out: int | None = None
    cost: int | None = None
    """Micro-dollars; `None` is not reported, which is not zero."""
    cost_source: str | None = None
    estimate: int | None = None
    """Micro-dollars that it was expected to cost when it was claimed."""
    reserved: int = 0
    """Micro-dollars that are set aside for it: more than the estimate once it is seen to cost more, 0 when it ended."""
    charged: int | None = None
    """Micro-dollars that its end took from Fuel and Reserve: its cost, or what stands for one that is unknown."""
    exit_code: int | None = None
    exit_signal: int | None = None
    cpu_seconds: float | None = None
    peak_memory: int | None = None
    """Bytes of the largest process."""
    outcome: Outcome | None = None
    interruption: Interruption | None = None
    """What cut it off, if anything did."""
    reason: str | None = None
    stopping: str | None = None
    """Why the tower asked it to end, if it did: cancelled, halted, stop, removed."""
    workspace_kind: str | None = None
    workspace: str | None = None
    base_commit: str | None = None
    tree_before: str | None = None
    tree_after: str | None = None
    """Git tree ids of what a writer found and left, uncommitted files included; None where there is no repository."""
    watched: str | None = None
    """Of a reader that no sandbox holds: the live tree that `tree_before` names, to be looked at again at its end."""
    sandbox: str | None = None
    """What holds it: bubblewrap, landlock or none."""
    tools_at: float | None = None
    """When it first asked which tools the tower offers; None: it has not."""
    frozen: str | None = None
    """The name of the frozen tree that it reads."""
    turn: int | None = None
    """Of a resident: its place among the process's turns, from 1; None for a run with a process of its own."""
    out_from: int | None = None
    out_to: int | None = None
    """Of a turn: the range of the process's standard output that is its own."""
    err_from: int | None = None
    err_to: int | None = None
    notes: tuple[str, ...] = ()
    """What was mended, what could not be enforced, what a person should know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorktreeRecord:
    """The work tree of a chain: where its agents work in place of the live tree."""

    itinerary: str
    live: str
    """Top folder of the repository that it belongs to."""
    path: str
    branch: str
    base: str | None
    made_at: float
    kept: str | None = None
    """Why it was not removed when it was looked at last, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What people and the tower said of an agent, beside its configuration."""

    agent: str
    paused_at: float | None = None
    paused_by: str | None = None
    """Who wants nothing to be started for it."""
    quarantined_at: float | None = None
    quarantine: str | None = None
    """Why its process was given up, in words."""
    cleared_at: float | None = None
    """Exits before this do not count any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that happened, for the log, the stream and the morning. `seq` is given by the store."""

    type: str
    at: float
    seq: int = 0
    itinerary: str | None = None
    flight: str | None = None
    run: str | None = None
    agent: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
