"""The script of the scripted agent (`fake:FILE`): what may stand in it, and what each step means by default.

`parse` finds the mistakes before anything runs; the program `tower.system.fake_agent` reads it by that too, and carries
the steps out. Standard library only, because that program runs without anything else.
"""

from __future__ import annotations

import signal
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

MAX_SECONDS: Final = 7 * 86400.0
"""Longest wait of one step: a week."""

MAX_FLOOD_MB: Final = 10_000.0
MAX_FORKS: Final = 1000

OUTPUTS: Final = ("text", "claude")
"""What a script may imitate: `say` then prints the lines that such a program would."""

Check = Callable[[object], Any]
"""Gives the value as the program will see it, or raises `ValueError` with words that complete "it ..."."""


class ScriptError(ValueError):
    """A script that cannot be followed: every problem in it, one sentence each."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do. `value` has the shape that `VERBS` gives it, defaults filled in."""

    verb: str
    value: Any


Call = tuple[Step, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """What the agent does at each call: the calls in order, the last one repeated."""

    calls: tuple[Call, ...] = ()
    """For every agent that has none of its own."""
    agents: Mapping[str, tuple[Call, ...]] = field(default_factory=dict)
    output: str = OUTPUTS[0]
    """How what it prints is read, as the `output` of a runner."""

    def call(self, agent: str, number: int) -> Call:
        """The steps of an agent's call, counting from 1. Raises `ScriptError` when nothing is written for it."""
        calls = self.agents.get(agent, self.calls)
        if not calls:
            raise ScriptError([f"there is no [[call]], and no [[agents.{agent}.call]]"])
        return calls[min(max(number, 1), len(calls)) - 1]


def parse(text: str) -> Script:
    """Read a script. Raises `ScriptError` with every problem in it."""
    try:
        table = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ScriptError([f"it is not TOML: {error}"]) from error
    problems: list[str] = []
    _unknown(table, ("call", "agents", "output"), "the script", problems)
    output = table.get("output", OUTPUTS[0])
    if output not in OUTPUTS:
        problems.append(f"output must be one of {', '.join(OUTPUTS)}")
    calls = _calls(table.get("call", []), "call", problems)
    agents = _agents(table.get("agents", {}), problems)
    if not problems and not calls and not agents:
        problems.append("it holds no [[call]]")
    if problems:
        raise ScriptError(problems)
    return Script(calls=calls, agents=agents, output=output)


def _agents(value: object, problems: list[str]) -> dict[str, tuple[Call, ...]]:
    if not isinstance(value, dict):
        problems.append("agents must be tables: write [[agents.NAME.call]]")
        return {}
    found: dict[str, tuple[Call, ...]] = {}
    for name, table in value.items():
        where = f"agents.{name}"
        if not isinstance(table, dict) or not table.get("call"):
            problems.append(f"{where} must hold calls: write [[{where}.call]]")
            continue
        _unknown(table, ("call",), where, problems)
        found[name] = _calls(table["call"], f"{where}.call", problems)
    return found


def _calls(value: object, where: str, problems: list[str]) -> tuple[Call, ...]:
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        problems.append(f"{where} must be a list of tables: write [[{where}]]")
        return ()
    return tuple(_call(entry, f"{where} {number}", problems) for number, entry in enumerate(value, 1))


def _call(entry: Mapping[str, object], where: str, problems: list[str]) -> Call:
    _unknown(entry, ("steps",), where, problems)
    try:
        return _steps(entry.get("steps"))
    except ScriptError as error:
        problems.extend(f"{where}, {problem}" for problem in error.problems)
        return ()


def _steps(value: object) -> Call:
    """A list of steps. Raises `ScriptError`."""
    if not isinstance(value, list):
        raise ScriptError(['steps must be a list, such as steps = [{ say = "hello" }]'])
    problems: list[str] = []
    steps: list[Step] = []
    for number, entry in enumerate(value, 1):
        try:
            steps.append(_step(entry))
        except ScriptError as error:
            problems.extend(f"step {number}, {problem}" for problem in error.problems)
        except ValueError as error:
            problems.append(f"step {number}: {error}")
    if problems:
        raise ScriptError(problems)
    return tuple(steps)


def _step(entry: object) -> Step:
    if not isinstance(entry, dict) or len(entry) != 1:
        raise ValueError('a step is a table with one key, such as { say = "hello" }')
    ((verb, value),) = entry.items()
    if verb not in VERBS:
        raise ValueError(f"{verb!r} is no step; there are {', '.join(sorted(VERBS))}")
    try:
        return Step(verb, VERBS[verb](value))
    except ScriptError:
        raise
    except ValueError as error:
        raise ValueError(f"{verb} {error}") from error


def _unknown(table: Mapping[str, object], known: Sequence[str], where: str, problems: list[str]) -> None:
    problems.extend(f"{where}: {key!r} means nothing here; there is {', '.join(known)}" for key in table.keys() - known)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("must be text")
    return value


def _path(value: object) -> str:
    if not isinstance(value, str) or not value or "\0" in value:
        raise ValueError("must be a path")
    return value


def _true(value: object) -> bool:
    if value is not True:
        raise ValueError("must be true")
    return True


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("must be true or false")
    return value


def _between(least: float, most: float) -> Check:
    def number(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
            raise ValueError(f"must be a number from {least:g} to {most:g}")
        return value

    return number


def _count(least: int, most: int) -> Check:
    def whole(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise ValueError(f"must be a whole number from {least} to {most}")
        return value

    return whole


def _one_of(*words: str) -> Check:
    def word(value: object) -> str:
        if not isinstance(value, str) or value not in words:
            raise ValueError(f"must be one of {', '.join(words)}")
        return value

    return word


def _signal(value: object) -> int:
    """A signal by name, with or without SIG, as its number."""
    name = value.removeprefix("SIG") if isinstance(value, str) else ""
    if f"SIG{name}" not in signal.Signals.__members__:
        raise ValueError("must be the name of a signal, such as TERM")
    return int(signal.Signals[f"SIG{name}"])


def _signals(value: object) -> tuple[int, ...]:
    if not isinstance(value, list):
        raise ValueError('must be a list of signals, such as ["TERM"]')
    return tuple(_signal(name) for name in value)


def _report(value: object) -> dict[str, Any] | str:
    if not isinstance(value, dict | str):
        raise ValueError("must be a table, or text to be written as it stands")
    return value


def _arguments(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("must be a table")
    return value


def _handler(value: object) -> Call:
    """Steps for when a signal comes. Steps that wait for a further signal would never be reached from there."""
    steps = _steps(value)
    if any(step.verb == "on_term" for step in steps):
        raise ValueError("cannot hold another on_term")
    return steps


_REQUIRED: Final = object()


def _table(**fields: tuple[Check, object]) -> Check:
    """A table of such fields, each with its default. One that is required has `_REQUIRED` for it."""

    def table(value: object) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise ValueError(f"must be a table of {', '.join(fields)}")
        unknown = sorted(value.keys() - fields)
        if unknown:
            raise ValueError(f"knows no {unknown[0]}; there are {', '.join(fields)}")
        read: dict[str, Any] = {}
        for name, (field_check, default) in fields.items():
            if name not in value and default is _REQUIRED:
                raise ValueError(f"needs {name}")
            try:
                read[name] = field_check(value[name]) if name in value else default
            except ValueError as error:
                raise ValueError(f"{name} {error}") from error
        return read

    return table


_branches: Final = _table(
    told=(_text, None),
    path=(_path, None),
    lines=(_count(0, 1_000_000), 1),
    then=(_steps, ()),
    otherwise=(_steps, ()),
)


def _condition(value: object) -> dict[str, Any]:
    """Steps for one case and for the other: by a text that the run was told, or by a file of so many lines."""
    read: dict[str, Any] = _branches(value)
    if (read["told"] is None) == (read["path"] is None):
        raise ValueError("needs told or path, and not both")
    return read


VERBS: Final[Mapping[str, Check]] = {
    "say": _text,
    "raw": _text,
    "err": _text,
    "read": _path,
    "echo": _one_of("stdin", "env", "cwd", "call", "args"),
    "binary": _true,
    "flood": _table(
        mb=(_between(0, MAX_FLOOD_MB), _REQUIRED), line=(_flag, False), to=(_one_of("stdout", "stderr"), "stdout")
    ),
    "close": _one_of("stdout", "stderr"),
    "write": _table(path=(_path, _REQUIRED), text=(_text, _REQUIRED)),
    "append": _table(path=(_path, _REQUIRED), text=(_text, _REQUIRED)),
    "report": _report,
    "run": _text,
    "send": _table(to=(_text, _REQUIRED), body=(_text, _REQUIRED), key=(_text, None)),
    "tool": _table(name=(_text, _REQUIRED), arguments=(_arguments, {})),
    "tools": _true,
    "sleep": _between(0, MAX_SECONDS),
    "wait_for": _table(path=(_path, _REQUIRED), timeout=(_between(0, MAX_SECONDS), 10.0)),
    "hang": _true,
    "ignore": _signals,
    "on_term": _handler,
    "fork": _table(
        count=(_count(1, MAX_FORKS), 1),
        setsid=(_flag, False),
        double=(_flag, False),
        ignore_term=(_flag, False),
        hold_output=(_flag, False),
        seconds=(_between(0, MAX_SECONDS), 600.0),
        pids=(_path, None),
    ),
    "when": _condition,
    "kill": _signal,
    "exit": _count(0, 255),
}
"""Each step's name, and what its value must be. The program has one function for each."""
