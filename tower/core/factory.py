"""The factory: one configuration file, read and resolved, as frozen values.

`config` makes these; everything else only reads them. All inheritance has been applied: an agent here says
everything about itself. Paths are absolute. Durations are seconds, sizes are bytes, money is micro-dollars.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from tower.core.choices import SENDER, Choice, chosen
from tower.core.costs import Rate
from tower.core.pipelines import Pipeline
from tower.core.prompts import Prompt
from tower.core.routes import Route, Scope

PERSON: Final = "person"
RESERVED_NAMES: Final = frozenset({PERSON, "tower", "schedule", "layover"})
AGENT_NAME_PATTERN: Final = r"[a-z][a-z0-9_-]{0,63}"


class Access(StrEnum):
    """What an agent may touch: the live tree, or a snapshot of it."""

    READ_WRITE = "read-write"
    READ_ONLY = "read-only"


class Position(StrEnum):
    """What the tower lets an agent see and do beyond its routes."""

    PARTICIPANT = "participant"
    ORCHESTRATOR = "orchestrator"
    """Sees the whole roster."""


class RecoveryPolicy(StrEnum):
    """What happens to work of this agent that was interrupted."""

    AUTOMATIC = "automatic"
    MANUAL = "manual"
    NEVER = "never"


class OnStop(StrEnum):
    """What SIGTERM does to running work: end it, or leave it to its keepers."""

    STOP = "stop"
    LEAVE = "leave"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolWiring:
    """How a program is told where the tower's tools are."""

    format: str
    """claude_json, codex_overrides, gemini_settings, opencode_json, env or none."""
    flag: str | None = None
    """The option before it, where the command has no `{mcp}`."""
    prefix: str = ""

    @property
    def is_wired(self) -> bool:
        """Whether the program is expected to ask for them."""
        return self.format != "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """How one agent program is invoked. Exactly one of the kinds; see `tower.runners` for what each does."""

    name: str
    """The name in `[runners.NAME]`, or the spec string itself (`cmd:./x.sh`)."""
    kind: str
    """command, cmd, fake, unavailable or none."""
    command: tuple[str, ...] = ()
    """For `command`: the argv with placeholders. For `cmd`: one element, the script text."""
    detail: str = ""
    """For `fake`: the absolute path of the script; for `unavailable`: the reason."""
    protocol: str | None = None
    """How its program is spoken to when it stays for many turns; None: it cannot."""
    args: tuple[str, ...] = ()
    mcp: ToolWiring | None = None
    """None: the program finds `LAYOVER_MCP_URL` in its environment, and nothing else is done."""
    output: str = "text"
    """text, report or claude: what the reader looks for."""
    env_from: tuple[str, ...] = ()
    max_concurrent: int | None = None
    stop_signal: str = "TERM"
    own_sandbox: bool = False
    """The program makes a mount sandbox of its own, which fails under Landlock."""
    assume: int | None = None
    """Micro-dollars charged for a run that says nothing of its cost."""
    efforts: Mapping[str, str] = field(default_factory=dict)
    """Level of the scale -> what its program calls it, "" for what it does not have; others are passed as they are."""
    unavailable_patterns: tuple[str, ...] = ()
    """Regular expressions for what it prints when quota, sign-in or service are gone."""
    private_home: bool = False
    """Each agent has a HOME of its own."""
    per_credit: int | None = None
    """Micro-dollars of one of the units that it counts in; None: `Factory.per_credit`."""
    estimate_base: float = 711.0
    """Tokens that a payload costs before its first byte; with `estimate_per_byte`, measured once over real prompts."""
    estimate_per_byte: float = 0.82


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    """Instructions for one kind of task, which an agent reads when it needs them."""

    name: str
    description: str
    path: str
    """Absolute, of its `SKILL.md`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """A configured worker, fully resolved."""

    name: str
    runner: str
    """The key of `Factory.runners`."""
    instructions: Prompt
    """Read at load; a run uses these texts whatever happens to their files later."""
    work_dir: str
    description: str | None = None
    purpose: str | None = None
    model: str | None = None
    effort: str | None = None
    tier: str | None = None
    """light, standard or frontier, where the model was asked for by that."""
    context: str | None = None
    """How large a context its program is asked for, in the program's own words."""
    tools: tuple[str, ...] | None = None
    """The only tools that its program may use; None: whatever it has."""
    persona: str | None = None
    language: str | None = None
    role: str | None = None
    position: Position = Position.PARTICIPANT
    skills: tuple[Skill, ...] = ()
    access: Access = Access.READ_WRITE
    entry: bool = False
    enabled: bool = True
    resident: bool = False
    """One process of it is kept alive, and each flight is a turn of that."""
    max_turns: int | None = None
    max_idle_sec: float | None = None
    """When a resident's process is replaced, and when it is ended until the next flight."""
    recovery: RecoveryPolicy = RecoveryPolicy.AUTOMATIC
    recover_on: frozenset[str] = frozenset({"tower_restart", "crash", "lost"})
    max_recovery_attempts: int = 2
    env: Mapping[str, str] = field(default_factory=dict)
    env_from: Mapping[str, str] = field(default_factory=dict)
    """Declared variable -> the key that declared it (`agents.coder.env_from`, `defaults.env_from`, ...)."""
    args: tuple[str, ...] = ()
    timeout_sec: float = 3600.0
    stall_sec: float | None = None
    first_output_sec: float | None = None
    linger_sec: float = 2.0
    mcp_grace_sec: float = 20.0
    """Until a program that is wired to the tower's tools has asked for them."""
    orphan_sec: float = 900.0
    max_concurrent: int | None = None
    max_pending: int | None = None
    context_budget: int | None = None
    memory: str | None = None
    """The name of a memory that several agents share; None: it has one of its own."""
    memory_bytes: int = 4096
    approve: bool = False
    """Flights to it wait for a person."""
    fuel: int = 5_000_000
    """Micro-dollars of an itinerary that begins with it."""
    reserve: int | None = None
    """Micro-dollars to set aside for one run; None: by its history, else `Settings.reserve`."""
    snapshot: str = "work"
    """work (HEAD, uncommitted and untracked) or head."""
    snapshot_include: tuple[str, ...] = ()
    snapshot_writes: str = "discard"
    """What becomes of what is written into a snapshot: discard, deny or keep."""
    sandbox: str = "auto"
    """auto (the strongest that works here), require (none, no run) or off."""
    sandbox_writable: tuple[str, ...] = ()
    """Absolute paths that runs may write beside their workspace."""
    network: bool = True
    origins: Mapping[str, str] = field(default_factory=dict)
    """Key -> where its value came from: agent, defaults, runner, built in."""


class FuelAction(StrEnum):
    """What happens to a run whose cost takes its chain past its Fuel while it is going."""

    FINISH = "finish"
    STOP = "stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserve:
    """The money of the whole factory in a rolling window."""

    fuel: int = 100_000_000
    """Micro-dollars; 0: unlimited."""
    window_hours: float = 24.0

    @property
    def window_sec(self) -> float:
        return self.window_hours * 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """`[layover]` and the factory-wide part of `[defaults]`."""

    state_dir: str
    work_dir: str
    socket: str
    socket_group: str | None = None
    allowed_dirs: tuple[str, ...] = ()
    prompt_dir: str = ""
    on_stop: OnStop = OnStop.STOP
    grace_sec: float = 20.0
    max_body_bytes: int = 1 << 20
    max_log_bytes: int = 256 << 20
    min_free_bytes: int = 512 << 20
    snapshots_dir: str = ""
    http_addr: str = "127.0.0.1:0"
    """Where the API and the door for agents are served over TCP; "" is the door alone, at a free port."""
    public_hosts: tuple[str, ...] = ()
    """Names by which the TCP port may be asked beside those of this machine."""
    logbook: str = ""
    """The Markdown file that all agents share, absolute."""
    umask: str | None = None
    """Of agents, in octal digits; None: the one that the tower was started with."""
    retention_days: int = 90
    """After which chains that are over are forgotten; 0: never."""
    keep_worktrees_sec: float = 86400.0
    """How long after its chain's end a work tree stays in any case."""
    snapshots_max: int = 16
    """Frozen trees that are kept for the next snapshot; one in use is never dropped."""
    notify: tuple[str, ...] = ()
    """Command that is told of events that want a person; empty: none."""
    include: tuple[str, ...] = ()
    """Patterns of further files that the configuration was read from."""
    max_concurrent_runs: int = 4
    max_hops: int = 8
    max_runs: int = 64
    reserve: int = 250_000
    """Micro-dollars to set aside for a run of an agent without a history."""
    fuel_action: FuelAction = FuelAction.FINISH
    max_spawn_generations: int = 1
    shared_writers: bool = False
    origins: Mapping[str, str] = field(default_factory=dict)
    """Key (`layover.socket`) -> where its value came from: file, environment VARIABLE, built in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Factory:
    """What one configuration file describes. `generation` is given when it becomes the live one."""

    path: str
    digest: str
    """SHA-256 over the configuration and every prompt file that it names."""
    settings: Settings
    agents: Mapping[str, Agent]
    runners: Mapping[str, Runner]
    routes: tuple[Route, ...] = ()
    pipelines: Mapping[str, Pipeline] = field(default_factory=dict)
    reserve: Reserve = Reserve()
    rates: Mapping[str, Rate] = field(default_factory=dict)
    """Model -> its price."""
    per_credit: int = 10_000
    """Micro-dollars of an AI credit."""
    generation: int = 0

    @property
    def residents(self) -> tuple[str, ...]:
        """Names of the agents for which a process is kept."""
        return tuple(
            name
            for name, agent in self.agents.items()
            if agent.resident and agent.enabled and self.runners[agent.runner].protocol is not None
        )

    def has_own_worktree(self, pipeline: str | None) -> bool:
        """Whether chains of a pipeline (None: of none) work in work trees of their own."""
        return pipeline is not None and pipeline in self.pipelines and self.pipelines[pipeline].own_worktrees

    def route(self, sender: str, receiver: str, scope: Scope) -> Route | None:
        """The route from one agent to the other that serves a chain of this scope; None: there is none."""
        ends = (sender, receiver)
        return next(
            (route for route in self.routes if (route.sender, route.receiver) == ends and route.serves(scope)), None
        )

    def agent_in(self, name: str, pipeline: str | None, choices: Mapping[str, Choice] | None = None) -> Agent:
        """An agent as a chain has it: what was chosen for the chain beats its pipeline, which beats the agent's own.

        A resident is what it is for every chain. Raises `KeyError` for an agent that there is not.
        """
        agent = self.agents[name]
        if agent.resident:
            return agent
        way_in = self.pipelines.get(pipeline or "")
        if way_in is not None:
            agent = chosen(agent, way_in.choices.get(name), f"pipeline {pipeline}")
        return agent if choices is None else chosen(agent, choices.get(name), SENDER)

    def peers(self, sender: str, scope: Scope) -> tuple[str, ...]:
        """Names that `sender` may send to in a chain of this scope, sorted."""
        return tuple(
            sorted({route.receiver for route in self.routes if route.sender == sender and route.serves(scope)})
        )
