"""The tables of the configuration file: shapes, types and bounds of every key that has an effect.

Each table is validated on its own, so that one mistake does not hide another. What a value means together with others
is left to `inherit`, `layout`, `agents` and `checks`; `[layover]` stands in `overrides`.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from tower.core import addresses
from tower.core.costs import MAX_DOLLARS
from tower.core.factory import AGENT_NAME_PATTERN
from tower.core.runner_spec import PRESETS

LONGEST_SEC: Final = 30 * 86400.0
"""Bound of every duration: longer than any run should be left alone."""

UNIT_SEC: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
DURATION_HINT: Final = 'write seconds (900), or text such as "30s", "15m", "2h", "3d"'
RUNNER_OUTPUTS_LATER: Final = tuple(name for name in PRESETS if name != "claude")
"""A program with a preset has a reader of its own."""

PROTOCOLS_LATER: Final = ("claude-stream-json", "acp", "codex-app-server")
"""How agent programs with a preset are kept alive."""

STOP_SIGNALS: Final = ("TERM", "INT", "HUP", "QUIT", "USR1", "USR2")
"""Signals that a program can catch and end on; KILL comes after `grace_sec` in any case."""

TABLE: Final = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)
"""TOML has types: nothing is converted. What is not known is refused, see `known`."""


class RefusedValueError(ValueError):
    """What is wrong with a value, in the words that a person will read; raised by validators alone."""

    def __init__(self, sentence: str, hint: str) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.hint = hint


def seconds(value: Any) -> Any:
    """Text such as `15m` as seconds; what is no text is left to the type."""
    if not isinstance(value, str):
        return value
    found = re.fullmatch(r"\s*([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*([smhd])\s*", value)
    if found is None:
        raise RefusedValueError("must be a duration", DURATION_HINT)
    return float(found[1]) * UNIT_SEC[found[2]]


def between(low: float, high: float) -> AfterValidator:
    """A number from `low` to `high`, both included."""

    def check(value: float) -> float:
        if low <= value <= high:
            return value
        bound = f"at least {low:.15g}" if value < low else f"at most {high:.15g}"
        raise RefusedValueError(f"must be {bound}", f"write a number from {low:.15g} to {high:.15g}")

    return AfterValidator(check)


def _limit(value: float) -> float:
    if value <= 0:
        raise RefusedValueError("must be greater than 0", DURATION_HINT)
    if value > LONGEST_SEC:
        raise RefusedValueError("must be at most 30 days", DURATION_HINT)
    return value


def _blank_is_none(value: Any) -> Any:
    """Text that says nothing is an explicit "none"."""
    return None if isinstance(value, str) and not value.strip() else value


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _one_or_more(value: Any) -> Any:
    return (value,) if isinstance(value, str) else _as_tuple(value)


def _path(value: str) -> str:
    if not value.strip():
        raise RefusedValueError("must name a path", "write a path; a relative one is taken from this file's folder")
    if value.startswith("~"):
        raise RefusedValueError("begins with ~, which is not expanded", "write the whole path")
    return value


def _address(value: str) -> str:
    if value == "":
        return value
    try:
        return str(addresses.parse(value))
    except ValueError as error:
        raise RefusedValueError(
            str(error), 'write an address and a port, such as "127.0.0.1:0"; "" serves no API over TCP'
        ) from None


def _host(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_.-]{1,253}|\[?[0-9A-Fa-f:.]{2,45}\]?", value):
        raise RefusedValueError("must be the name of a host", 'write it without scheme and port, such as "tower.lan"')
    return value.lower().rstrip(".")


def _runner(value: str) -> str:
    if not value.strip():
        raise RefusedValueError("must name a runner", 'write "none" for an agent that is never started')
    return value


def _signal(value: str) -> str:
    name = value.removeprefix("SIG")
    if name not in STOP_SIGNALS:
        raise RefusedValueError("must be a signal that a program can end on", f"write one of {', '.join(STOP_SIGNALS)}")
    return name


def _output(value: Any) -> Any:
    if value in RUNNER_OUTPUTS_LATER:
        raise RefusedValueError(f"{value!r} is not available yet", 'write "text", "report" or "claude"')
    return value


def _wiring(value: Any) -> Any:
    """Older files have another name for one form."""
    return "codex_overrides" if value == "codex_toml" else value


def _protocol(value: Any) -> Any:
    if value in PROTOCOLS_LATER:
        raise RefusedValueError(f"{value!r} is not available yet", 'write "jsonl"')
    return value


def _pattern(value: str) -> str:
    if not value.strip():
        raise RefusedValueError("must name files", 'write a pattern such as "build/*.json"')
    if value.startswith(("/", "~")) or ".." in value.split("/"):
        raise RefusedValueError("must stay inside the work tree", "write a pattern relative to it, without ..")
    return value


def _include(value: str) -> str:
    if not value.strip():
        raise RefusedValueError("must name files", 'write a pattern such as "agents/*.toml"')
    if value.startswith(("/", "~")) or ".." in value.split("/"):
        raise RefusedValueError("must stay inside this file's folder", "write a pattern relative to it, without ..")
    if "**" in value:
        raise RefusedValueError("looks into folders of any depth", "write one * for each folder on the way")
    return value


def _scope(value: str) -> str:
    if not re.fullmatch(AGENT_NAME_PATTERN, value):
        raise RefusedValueError(
            "is not a name for a memory", "use at most 64 of a-z, 0-9, _ and -, beginning with a letter"
        )
    return value


def _expression(value: str) -> str:
    try:
        re.compile(value)
    except re.error as error:
        raise RefusedValueError(
            f"is no regular expression: {error}", "put a backslash before what is meant literally"
        ) from None
    if re.match(value, ""):
        raise RefusedValueError("matches every line", 'write what the program prints, such as "rate limit|quota"')
    return value


def _octal_text(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        # 22 and 0o22 are the same to TOML's reader as 22 and 18: nobody can tell what was meant.
        raise RefusedValueError("must be text of octal digits", 'put it in quotes: "022"')
    return _blank_is_none(value)


def _umask(value: str) -> str:
    if not re.fullmatch(r"[0-7]{1,4}", value) or int(value, 8) > 0o777:
        raise RefusedValueError("must be text of octal digits", 'write "022" (others may read) or "077" (nobody else)')
    return value


Short = Annotated[str, Field(max_length=4096)]
Long = Annotated[str, Field(max_length=1 << 20)]
Words = Annotated[Short | None, BeforeValidator(_blank_is_none)]
Prose = Annotated[Long | None, BeforeValidator(_blank_is_none)]
PathText = Annotated[Short, AfterValidator(_path)]
RunnerText = Annotated[Long, AfterValidator(_runner)]
Names = Annotated[tuple[Short, ...], BeforeValidator(_as_tuple), Field(max_length=1000)]
Paths = Annotated[tuple[PathText, ...], BeforeValidator(_as_tuple), Field(max_length=1000)]
Patterns = Annotated[tuple[Annotated[Short, AfterValidator(_pattern)], ...], BeforeValidator(_as_tuple)]
MemoryScope = Annotated[Annotated[str, AfterValidator(_scope)] | None, BeforeValidator(_blank_is_none)]
Umask = Annotated[Annotated[Short, AfterValidator(_umask)] | None, BeforeValidator(_octal_text)]
Includes = Annotated[
    tuple[Annotated[Short, AfterValidator(_include)], ...], BeforeValidator(_as_tuple), Field(max_length=100)
]
Command = Annotated[tuple[Short, ...], BeforeValidator(_as_tuple), Field(min_length=1, max_length=1000)]
Ends = Annotated[tuple[Short, ...], BeforeValidator(_one_or_more), Field(min_length=1, max_length=1000)]
Literals = Annotated[dict[str, Long], Field(max_length=1000)]

HttpAddress = Annotated[Short, AfterValidator(_address)]
Hosts = Annotated[
    tuple[Annotated[Short, AfterValidator(_host)], ...], BeforeValidator(_as_tuple), Field(max_length=100)
]

Limit = Annotated[float, BeforeValidator(seconds), AfterValidator(_limit)]
OptionalLimit = Annotated[Limit | None, BeforeValidator(_blank_is_none)]
Linger = Annotated[float, BeforeValidator(seconds), between(0, 600)]
Orphan = Annotated[float, BeforeValidator(seconds), between(0, LONGEST_SEC)]
Concurrency = Annotated[int, between(1, 1024)]
EffortLevel = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
EFFORTS: Final[tuple[str, ...]] = get_args(EffortLevel)
TierName = Literal["light", "standard", "frontier"]
TIERS: Final[tuple[str, ...]] = get_args(TierName)
Effort = Annotated[EffortLevel | None, BeforeValidator(_blank_is_none)]
Tier = Annotated[TierName | None, BeforeValidator(_blank_is_none)]
Efforts = Annotated[dict[EffortLevel, Short], Field(max_length=100)]
TiersOfRunner = Annotated[dict[TierName, Short], Field(max_length=3)]
Tools = Annotated[tuple[Short, ...] | None, BeforeValidator(_as_tuple)]
Expressions = Annotated[
    tuple[Annotated[Short, AfterValidator(_expression)], ...], BeforeValidator(_as_tuple), Field(max_length=100)
]
Interruptions = Annotated[
    tuple[Literal["tower_restart", "crash", "lost", "timeout", "stall", "first_output", "failed"], ...],
    BeforeValidator(_as_tuple),
]


def _budget(value: float) -> float:
    if not 0 < value <= MAX_DOLLARS:
        raise RefusedValueError(
            "must be more than 0 dollars" if value <= 0 else f"must be at most {MAX_DOLLARS} dollars",
            "write dollars, such as 2.50",
        )
    return value


Budget = Annotated[float, AfterValidator(_budget)]
"""Dollars that bound something: 0 would let nothing start."""

Dollars = Annotated[float, between(0, MAX_DOLLARS)]
Cents = Annotated[float, between(0, 1000)]
"""Dollars of one unit."""


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

    format: Annotated[
        Literal["claude_json", "codex_overrides", "gemini_settings", "opencode_json", "env", "none"],
        BeforeValidator(_wiring),
    ]
    flag: Short | None = None
    prefix: Short = ""


class RunnerTable(BaseModel):
    """`[runners.NAME]`."""

    model_config = TABLE

    command: Command
    args: Names = ()
    output: Annotated[Literal["text", "report", "claude"], BeforeValidator(_output)] = "text"
    env_from: Names = ()
    max_concurrent: Concurrency | None = None
    stop_signal: Annotated[Short, AfterValidator(_signal)] = "TERM"
    own_sandbox: bool = False
    protocol: Annotated[Literal["jsonl"] | None, BeforeValidator(_protocol)] = None
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
