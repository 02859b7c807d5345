"""What answers look like, for the API's description at `/openapi.json`.

`control` makes the answers as plain values and nothing is copied through these models; a test holds the two together.
Times are ISO 8601 in UTC, money is US dollars, sizes are bytes. Unknown is null, never 0.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from tower.core.consequences import Change, ProcessChange
from tower.core.joins import Standing
from tower.core.residence import ResidentState
from tower.core.states import Cause, FlightState, HeldReason, Outcome, RunState

Time = str


class _Shape(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Health(_Shape):
    status: str = Field(examples=["ok"])
    version: str


class Found(_Shape):
    kind: str = Field(description="flight, itinerary or run")
    id: str


class Sender(_Shape):
    kind: str = Field(description="person, agent, schedule, layover, recovery, steer or reply")
    name: str
    ref: str | None = Field(description="the run, or what else it was sent from")


class Flight(_Shape):
    """One message to one agent."""

    id: str
    itinerary: str
    sender: Sender
    to: str
    body: str
    created_at: Time
    state: FlightState
    hops_remaining: int
    priority: int
    key: str | None
    not_before: Time | None
    held_reason: HeldReason | None
    reason: str | None
    release_at: Time | None
    attempt: int
    outcome: Outcome | None
    ended_at: Time | None
    approved_by: str | None
    approval_note: str | None
    joined: str | None = Field(description="the first of the flights that a join released together with it")
    waits_for: str | None = Field(default=None, description="in words; present while it waits")


class Flights(_Shape):
    flights: list[Flight]


class Sent(_Shape):
    flight: Flight
    itinerary: str
    duplicate: bool = Field(description="this very flight had been sent before; nothing new was made")


class Run(_Shape):
    """One supervised execution."""

    id: str
    agent: str
    runner: str
    generation: int
    itinerary: str
    flights: list[str]
    state: RunState
    attempt: int
    cause: Cause
    number: int = Field(description="the agent's n-th run")
    follows_run: str | None
    queued_at: Time
    claimed_at: Time
    started_at: Time | None
    ended_at: Time | None
    seconds: float | None
    outcome: Outcome | None
    reason: str | None
    interruption: str | None = Field(description="what cut it off, where something did")
    stopping: str | None
    exit_code: int | None
    exit_signal: int | None
    cpu_seconds: float | None
    peak_memory: int | None
    model: str | None
    tokens_in: int | None
    tokens_cached: int | None
    tokens_out: int | None
    cost_usd: float | None
    cost_source: str | None
    estimate_usd: float | None = Field(description="what it was expected to cost")
    charged_usd: float | None = Field(description="what Fuel and Reserve were charged for it")
    workspace_kind: str | None
    workspace: str | None
    base_commit: str | None
    tree_before: str | None = Field(description="git tree id of what a writer found, uncommitted files included")
    tree_after: str | None
    sandbox: str | None = Field(description="what holds the run: bubblewrap, landlock or none")
    prompt_sha256: str | None
    prompt_files: dict[str, str]
    payload_sha256: str | None
    payload_bytes: int | None
    estimate_tokens: int | None
    headline: str | None = Field(description="of its report")
    notes: list[str]
    pid: int | None
    folder: str | None
    cgroup: str | None = Field(description="control group that its processes are in, or were; null where it had none")
    process: str = Field(description="prc_...: its own, or of the resident whose turn it is")
    turn: int | None = Field(description="which turn of a resident's process; null for a process of its own")
    out_from: int | None = Field(description="of a turn: where its part of the process's output begins")
    out_to: int | None


class Runs(_Shape):
    runs: list[Run]


class FlightWithRuns(Flight):
    runs: list[Run]


class Fuel(_Shape):
    """The money of a chain."""

    limit_usd: float
    spent_usd: float = Field(description="what stands for unknown costs included")
    reserved_usd: float = Field(description="set aside for runs under way")
    overshot_at: Time | None = Field(description="when what it spent first passed its limit")


class Itinerary(_Shape):
    """The chain of flights that one trigger caused."""

    id: str
    name: str | None
    pipeline: str | None
    flags: dict[str, bool] = Field(description="of its pipeline; they hold for the whole chain")
    parent: str | None = Field(description="the itinerary from which a run opened this one")
    state: str = Field(description="working, held, waiting, stalled, halted, finished, cancelled or interrupted")
    created_at: Time
    max_hops: int
    max_runs: int
    runs_started: int
    cost: str | None = Field(
        description="`$1.20`; `$1.20+` when a run in it is unknown; `not reported` when all are; null before the first"
    )
    cost_usd: float | None = Field(description="what was reported; null when nothing was")
    cost_source: str | None = Field(description="the weakest one in it")
    unreported_runs: int
    fuel: Fuel


class Itineraries(_Shape):
    itineraries: list[Itinerary]


class Report(_Shape):
    """The account that a run gave of itself."""

    run: str
    at: Time
    headline: str
    body: str
    artifacts: list[str] = Field(description="files, relative to the place that it worked in")


class HelpRequest(_Shape):
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


class HelpRequests(_Shape):
    help: list[HelpRequest]


class Delivery(_Shape):
    flight: str
    sender: str
    counts: Standing = Field(description="pending: the run that sent it is not over")


class JoinOfChain(_Shape):
    """A join to which something was delivered."""

    receiver: str
    join: str | int = Field(description="all, any, settled, or how many")
    from_: list[str] = Field(alias="from")
    wave: int
    parked: list[Delivery]
    missing: list[str]
    given_up: bool
    due_at: Time | None = Field(description="when it is given up at the latest")
    words: str | None = Field(description="what it waits for; null while nothing is parked")


class Story(Itinerary):
    flights: list[Flight]
    joins: list[JoinOfChain]
    runs: list[Run]
    help: list[HelpRequest] = Field(description="what its runs want of a person, the open ones")
    seq: int = Field(description="the newest event that concerns it; `after` for the next question")


class Agent(_Shape):
    name: str
    description: str | None
    runner: str
    access: str
    entry: bool
    enabled: bool
    resident: bool
    paused_by: str | None = Field(description="who wants nothing to be started for it")
    recovery: str
    work_dir: str


class Value(_Shape):
    """One key of the configuration."""

    value: Any
    origin: str = Field(description="agent, defaults, runner, file, a variable, ..., or built in: nobody said it")


class Resident(_Shape):
    """An agent for which one process is kept, and that process."""

    agent: str
    state: ResidentState
    why: str | None = Field(description="how the last process ended, or why this one is to end")
    until: Time | None = Field(description="when the next one is started, after a failure")
    process: str | None
    since: Time | None
    turns: int | None
    run: str | None = Field(description="the turn under way")
    paused_by: str | None


class Variable(_Shape):
    """A variable that is forwarded to an agent's runs; its value is never shown."""

    name: str
    declared_by: str = Field(description="the key of the configuration")
    is_set: bool


class AgentRecord(Agent):
    """All that is known of an agent."""

    values: dict[str, Value] = Field(description="every key of the file, with what it came to")
    process: Resident | None = Field(description="of a resident; null: it is none")
    enforced: list[str] = Field(description="what holds for its runs, in words")
    advisory: list[str] = Field(description="what it could do all the same, in words")
    variables: list[Variable]
    sends_to: list[str]
    woken_by: list[str] = Field(description="agents with a route to it")
    ways_in: list[str] = Field(description="how a chain can begin at it: person, and names of pipelines")


class Agents(_Shape):
    agents: list[Agent]


class Flag(_Shape):
    default: bool
    description: str | None


class Choice(_Shape):
    """What a pipeline's chains ask of an agent in place of its own; a key that is absent is the agent's."""

    model: str | None = None
    effort: str | None = None
    context: str | None = None
    args: list[str]


class Pipeline(_Shape):
    """A named way in."""

    name: str
    description: str | None
    entry: str
    trigger: str = Field(examples=["manual"])
    priority: int
    body: str | None = Field(description="what is sent when nothing else is said")
    flags: dict[str, Flag]
    agents: dict[str, Choice]


class Pipelines(_Shape):
    pipelines: list[Pipeline]


class Problem(_Shape):
    """One thing that is wrong with the configuration."""

    file: str
    line: int | None
    column: int | None
    key: str | None
    sentence: str
    hint: str
    severity: str


class Generation(_Shape):
    number: int
    digest: str
    loaded_at: Time
    path: str


class GroundStop(_Shape):
    since: Time
    by: str
    why: str


class Slots(_Shape):
    used: int
    of: int


class Reserve(_Shape):
    """The money of the factory, in its rolling window."""

    limit_usd: float | None = Field(description="null: unlimited")
    window_hours: float
    spent_usd: float
    reserved_usd: float


class Circuit(_Shape):
    """A runner that cannot work at the moment."""

    runner: str
    state: str = Field(description="open, or half open: one flight tries it")
    reason: str
    since: Time
    until: Time
    failures: int
    probe: str | None = Field(description="the run that tries it")


class RunnerReset(_Shape):
    runner: str
    was_open: bool


class Spent(_Shape):
    """What some runs cost together."""

    runs: int
    unreported: int
    cost: str = Field(description="as for an itinerary")
    cost_usd: float | None
    charged_usd: float = Field(description="what Fuel and Reserve were charged, unknown costs included")
    source: str | None


class SpentBy(Spent):
    name: str | None


class Costs(_Shape):
    since: Time | None
    until: Time | None
    total: Spent
    by: dict[str, list[SpentBy]] = Field(description="agent, model, pipeline, day")
    reserve: Reserve


class Summary(_Shape):
    """What happened since a time, and what waits for a person."""

    since: Time
    outcomes: dict[str, int] = Field(description="how many runs ended how")
    alive: int
    costs: Costs
    troubles: list[Run] = Field(description="runs that did not end well, newest first")
    changed: list[Run] = Field(description="runs that changed their tree, newest first")
    waiting: list[Flight]
    help: int
    circuits: list[Circuit]
    ground_stop: str | None


class Queue(_Shape):
    queued: int
    held: int
    parked: int
    halted: int


class Status(_Shape):
    """One screen of truth."""

    version: str
    pid: int
    started_at: Time
    state: str = Field(description="running, draining or stopping")
    well: bool = Field(description="nothing waits for a person")
    generation: Generation
    ground_stop: GroundStop | None
    slots: Slots
    reserve: Reserve
    circuits: list[Circuit]
    queue: Queue
    runs: list[Run]
    holds: list[Flight]
    problems: list[Problem]
    needs_restart: list[str]
    warnings: list[str]
    agents: list[Agent]
    residents: list[Resident]
    help: int = Field(description="requests for help that are open")


class Worktree(_Shape):
    """The work tree of a chain."""

    itinerary: str
    live: str = Field(description="top folder of the repository that it belongs to")
    path: str
    branch: str
    made_at: Time
    in_use: bool
    kept: str | None = Field(description="why it was not removed when it was looked at last")


class Worktrees(_Shape):
    worktrees: list[Worktree]


class RescuedTree(_Shape):
    path: str
    ref: str


class Rescued(_Shape):
    rescued: list[RescuedTree]


class Recovered(_Shape):
    recovered: int


class Consequence(_Shape):
    """What a reload would do to an agent."""

    name: str
    change: Change
    process: ProcessChange | None = Field(description="what becomes of a resident's; null: it is none")
    held: int = Field(description="flights that wait for it and would be held")


class Compared(_Shape):
    """What a reload would change."""

    generation: int
    path: str
    changes: list[str]
    problems: list[Problem]
    needs_restart: list[str]
    agents: list[Consequence]


class Reloaded(_Shape):
    changed: bool
    generation: int
    changes: list[str]
    problems: list[Problem]
    needs_restart: list[str]
