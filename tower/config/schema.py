"""The tables of the configuration file: shapes, types and bounds of every key that has an effect.

Each table is validated on its own, so that one mistake does not hide another. What a value means together with others
is left to `inherit`, `layout`, `agents` and `checks`; `[layover]` stands in `overrides`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from tower.config.values import (
    TABLE,
    Budget,
    Cents,
    Command,
    Concurrency,
    Dollars,
    Effort,
    Efforts,
    Expressions,
    Interruptions,
    Limit,
    Linger,
    Literals,
    Long,
    McpFormat,
    MemoryScope,
    Names,
    OptionalLimit,
    Orphan,
    Paths,
    PathText,
    Patterns,
    Prose,
    RunnerOutput,
    RunnerProtocol,
    RunnerText,
    Short,
    StopSignal,
    Tier,
    TiersOfRunner,
    Tools,
    Words,
    between,
)


class Shared(BaseModel):
    """Keys that an agent has and `[defaults]` may give."""

    model_config = TABLE

    runner: RunnerText | None = None
    model: Words = None
    effort: Effort = None
    tier: Tier = None
    context: Words = None
    tools: Tools = None
    persona: Prose = None
    language: Words = None
    skills: Paths = ()
    env_from: Names = ()
    env: Literals = Field(default_factory=dict)
    timeout_sec: Limit = 3600.0
    stall_sec: OptionalLimit = None
    first_output_sec: OptionalLimit = None
    linger_sec: Linger = 2.0
    mcp_grace_sec: Limit = 20.0
    orphan_sec: Orphan = 900.0
    max_recovery_attempts: Annotated[int, between(0, 100)] = 2
    memory_bytes: Annotated[int, between(0, 1 << 20)] = 4096
    snapshot: Literal["work", "head"] = "work"
    snapshot_include: Patterns = ()
    snapshot_writes: Literal["discard", "deny", "keep"] = "discard"
    fuel_usd: Budget = 5.0
    sandbox: Literal["auto", "require", "off"] = "auto"
    sandbox_writable: Paths = ()
    network: bool = True


class DefaultsTable(Shared):
    """`[defaults]`: what agents take when they say nothing, and the rails of the whole factory."""

    max_hops: Annotated[int, between(1, 1000)] = 8
    max_runs: Annotated[int, between(1, 100_000)] = 64
    max_concurrent_runs: Concurrency = 4
    max_spawn_generations: Annotated[int, between(0, 100)] = 1
    reserve_usd: Dollars = 0.25
    fuel_action: Literal["finish", "stop"] = "finish"
    writers: Literal["exclusive", "shared"] = "exclusive"


class AgentTable(Shared):
    """`[agents.NAME]`."""

    description: Words = None
    purpose: Prose = None
    role: Prose = None
    position: Literal["participant", "orchestrator"] = "participant"
    prompt: Long | None = None
    prompt_file: PathText | None = None
    access: Literal["read-write", "read-only"] = "read-write"
    entry: bool = False
    enabled: bool = True
    resident: bool = False
    max_turns: Annotated[int, between(1, 1_000_000)] | None = None
    max_idle_sec: OptionalLimit = None
    recovery: Literal["automatic", "manual", "never"] = "automatic"
    recover_on: Interruptions = ("tower_restart", "crash", "lost")
    args: Names = ()
    work_dir: PathText | None = None
    max_concurrent: Concurrency | None = None
    max_pending: Annotated[int, between(1, 100_000)] | None = None
    context_budget: Annotated[int, between(1, 1_000_000_000)] | None = None
    memory: MemoryScope = None
    approve: bool = False
    reserve_usd: Dollars | None = None


class EstimateTable(BaseModel):
    """`[runners.NAME] estimate`: tokens of a payload by its bytes."""

    model_config = TABLE

    base: Annotated[float, between(0, 1e9)] = 711.0
    per_byte: Annotated[float, between(0, 1000)] = 0.82


class McpTable(BaseModel):
    """`[runners.NAME] mcp`: how the program is told of the tower's tools."""

    model_config = TABLE

    format: McpFormat
    flag: Short | None = None
    prefix: Short = ""


class RunnerTable(BaseModel):
    """`[runners.NAME]`."""

    model_config = TABLE

    command: Command
    args: Names = ()
    output: RunnerOutput = "text"
    env_from: Names = ()
    max_concurrent: Concurrency | None = None
    stop_signal: StopSignal = "TERM"
    own_sandbox: bool = False
    protocol: RunnerProtocol = None
    efforts: Efforts = Field(default_factory=dict)
    tiers: TiersOfRunner = Field(default_factory=dict)
    unavailable_patterns: Expressions = ()
    config_home: Literal["inherit", "per-agent"] = "inherit"
    mcp: McpTable | None = None
    estimate: EstimateTable = EstimateTable()
    assume_usd: Dollars | None = None
    usd_per_credit: Cents | None = None


class ReserveTable(BaseModel):
    """`[reserve]`: the money of the whole factory."""

    model_config = TABLE

    fuel_usd: Dollars = 100.0
    window_hours: Annotated[float, between(1, 720)] = 24.0


class RateTable(BaseModel):
    """`[rates.MODEL]`: dollars per million tokens."""

    model_config = TABLE

    input_usd: Dollars
    output_usd: Dollars
    cache_read_usd: Dollars | None = None
    cache_write_usd: Dollars | None = None


class CopilotTable(BaseModel):
    """`[copilot]`."""

    model_config = TABLE

    usd_per_credit: Cents = 0.01


class TiersTable(BaseModel):
    """`[tiers]`: what each runner's program takes for a tier."""

    model_config = TABLE

    light: Literals = Field(default_factory=dict)
    standard: Literals = Field(default_factory=dict)
    frontier: Literals = Field(default_factory=dict)
