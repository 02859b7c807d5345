"""Types and bounds of single values of the configuration file, and the words for those that are wrong.

The tables that are made of them stand in `schema`.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field

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

RunnerOutput = Annotated[Literal["text", "report", "claude"], BeforeValidator(_output)]
RunnerProtocol = Annotated[Literal["jsonl"] | None, BeforeValidator(_protocol)]
StopSignal = Annotated[Short, AfterValidator(_signal)]
McpFormat = Annotated[
    Literal["claude_json", "codex_overrides", "gemini_settings", "opencode_json", "env", "none"],
    BeforeValidator(_wiring),
]
