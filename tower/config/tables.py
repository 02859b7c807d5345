"""From a parsed document to validated tables, each on its own, with every problem of shape found on the way.

A table with mistakes goes on with its sound keys, so that the checks that follow still see the rest of it; which keys
were unsound stays on record, so that nothing is said to be missing that was merely mistyped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

from pydantic import BaseModel, ValidationError

from tower.config.known import refuse_key
from tower.config.overrides import LayoverTable, OverriddenTable, overridden
from tower.config.positions import KeyPath
from tower.config.problems import Findings, key_text
from tower.config.schema import (
    AgentTable,
    CopilotTable,
    DefaultsTable,
    EstimateTable,
    McpTable,
    RateTable,
    ReserveTable,
    RunnerTable,
    TiersTable,
)
from tower.config.ways import ChoiceTable, FlagTable, PipelineTable, RouteTable
from tower.config.wording import describe
from tower.core.factory import AGENT_NAME_PATTERN, RESERVED_NAMES

T = TypeVar("T", bound=BaseModel)

SECTIONS: Final[Mapping[str, type[BaseModel]]] = {
    "layover": LayoverTable,
    "defaults": DefaultsTable,
    "runners.*": RunnerTable,
    "runners.*.estimate": EstimateTable,
    "runners.*.mcp": McpTable,
    "agents.*": AgentTable,
    "routes.*": RouteTable,
    "pipelines.*": PipelineTable,
    "pipelines.*.flags.*": FlagTable,
    "pipelines.*.agents.*": ChoiceTable,
    "tiers": TiersTable,
    "reserve": ReserveTable,
    "rates.*": RateTable,
    "copilot": CopilotTable,
}
"""Every table that the file may hold, with the model that names its keys."""

TOP: Final = ("layover", "defaults", "runners", "agents", "routes", "pipelines", "tiers", "reserve", "rates", "copilot")

_OF_A_KEY: Final = "[key]"
"""What pydantic puts behind a key that is wrong itself, rather than its value."""

_NAME_HINT: Final = "use at most 64 of a-z, 0-9, _ and -, beginning with a letter"


@dataclass(frozen=True, slots=True)
class Checked(Generic[T]):
    """A validated table, and the keys of it that were left out because they are wrong."""

    value: T
    unsound: frozenset[str] = frozenset()

    @property
    def given(self) -> dict[str, Any]:
        """The keys that are set, `""` and `[]` included."""
        return {key: getattr(self.value, key) for key in self.value.model_fields_set}


@dataclass(slots=True, kw_only=True)
class Tables:
    """One document, table by table. Agents and runners with an impossible name are only among the names."""

    layover: Checked[LayoverTable]
    defaults: Checked[DefaultsTable]
    tiers: Checked[TiersTable]
    reserve: Checked[ReserveTable]
    copilot: Checked[CopilotTable]
    rates: dict[str, Checked[RateTable]] = field(default_factory=dict)
    runners: dict[str, Checked[RunnerTable]] = field(default_factory=dict)
    agents: dict[str, Checked[AgentTable]] = field(default_factory=dict)
    routes: dict[int, Checked[RouteTable]] = field(default_factory=dict)
    pipelines: dict[str, Checked[PipelineTable]] = field(default_factory=dict)
    agent_names: frozenset[str] = frozenset()
    runner_names: frozenset[str] = frozenset()
    pipeline_names: frozenset[str] = frozenset()


def accepted_keys(section: str) -> tuple[str, ...]:
    """Keys that a table of `SECTIONS` accepts, as they are written."""
    return tuple(info.alias or name for name, info in SECTIONS[section].model_fields.items())


def _accepted() -> dict[str, tuple[str, ...]]:
    """Keys by table; the file itself is the table ""."""
    return {"": TOP, **{section: accepted_keys(section) for section in SECTIONS}}


def read_layover(document: dict[str, Any], environ: Mapping[str, str], findings: Findings) -> Checked[LayoverTable]:
    """Validate `[layover]`, which says what else is to be read. Problems go to `findings`; nothing is raised."""
    return _layover(_table(document, "layover", findings), environ, findings)


def read_tables(document: dict[str, Any], layover: Checked[LayoverTable], findings: Findings) -> Tables:
    """Validate every other table. Problems go to `findings`; nothing is raised."""
    for key in document.keys() - set(TOP):
        findings.error((key,), *refuse_key("", key, _accepted()))
    runners = _named(document, "runners", findings)
    agents = _named(document, "agents", findings)
    pipelines = _named(document, "pipelines", findings)
    tables = Tables(
        layover=layover,
        defaults=_optional(DefaultsTable, _table(document, "defaults", findings), ("defaults",), findings),
        tiers=_optional(TiersTable, _table(document, "tiers", findings), ("tiers",), findings),
        reserve=_optional(ReserveTable, _table(document, "reserve", findings), ("reserve",), findings),
        copilot=_optional(CopilotTable, _table(document, "copilot", findings), ("copilot",), findings),
        agent_names=frozenset(agents),
        runner_names=frozenset(runners),
        pipeline_names=frozenset(pipelines),
    )
    for name, table in runners.items():
        runner = _validated(RunnerTable.model_validate, table, ("runners", name), findings)
        if _is_runner_name(name, findings) and runner:
            tables.runners[name] = runner
    for name, table in agents.items():
        agent = _optional(AgentTable, table, ("agents", name), findings)
        if _is_agent_name(name, findings):
            tables.agents[name] = agent
    for index, table in _routes(document, findings):
        if route := _validated(RouteTable.model_validate, table, ("routes", index), findings):
            tables.routes[index] = route
    for name, table in pipelines.items():
        pipeline = _validated(PipelineTable.model_validate, table, ("pipelines", name), findings)
        if _is_pipeline_name(name, findings) and pipeline:
            tables.pipelines[name] = pipeline
    for model, table in _named(document, "rates", findings).items():
        if rate := _validated(RateTable.model_validate, table, ("rates", model), findings):
            tables.rates[model] = rate
    return tables


def _table(document: Mapping[str, Any], name: str, findings: Findings) -> dict[str, Any]:
    table = document.get(name, {})
    if isinstance(table, dict):
        return table
    findings.error((name,), "must be a table", f"write [{name}]")
    return {}


def _named(document: Mapping[str, Any], name: str, findings: Findings) -> dict[str, dict[str, Any]]:
    tables = {}
    for key, table in _table(document, name, findings).items():
        if isinstance(table, dict):
            tables[key] = table
        elif isinstance(table, list):
            findings.error(
                (name, key), "must be a table", f"write [{key_text((name, key))}], with one pair of brackets"
            )
        else:
            findings.error((name, key), "must be a table", f"write [{name}.NAME]")
    return tables


def _routes(document: Mapping[str, Any], findings: Findings) -> Iterator[tuple[int, dict[str, Any]]]:
    routes = document.get("routes", [])
    if not isinstance(routes, list):
        findings.error(("routes",), "must be a list of tables", "write [[routes]] above each route")
        return
    for index, table in enumerate(routes):
        if isinstance(table, dict):
            yield index, table
        else:
            findings.error(("routes", index), "must be a table", "write [[routes]] above each route")


def _optional(model: type[T], table: dict[str, Any], path: KeyPath, findings: Findings) -> Checked[T]:
    """For tables that can do without every key."""
    return _validated(model.model_validate, table, path, findings) or Checked(model())


def _layover(table: dict[str, Any], environ: Mapping[str, str], findings: Findings) -> Checked[LayoverTable]:
    variables = overridden(environ)
    if not variables:
        return _optional(LayoverTable, table, ("layover",), findings)
    make: Callable[..., LayoverTable] = OverriddenTable

    def read(kept: Mapping[str, Any]) -> LayoverTable:
        return make(
            table={key: value for key, value in table.items() if key in kept},
            environ={variable: environ[variable] for key, variable in variables.items() if key in kept},
        )

    given = {**table, **{key: environ[variable] for key, variable in variables.items()}}
    return _validated(read, given, ("layover",), findings) or Checked(read({}))


def _validated(
    read: Callable[[dict[str, Any]], T], table: dict[str, Any], path: KeyPath, findings: Findings
) -> Checked[T] | None:
    """The table with its sound keys; None when a key that it cannot do without is missing or unsound."""
    unsound = set()
    for inside in _paths_with_nul(table) if findings.sources.may_hold_nul else ():
        findings.error((*path, *inside), "holds a NUL character", "remove it")
        unsound.add(str(inside[0]))
    try:
        return Checked(read(_without(table, unsound)), frozenset(unsound))
    except ValidationError as invalid:
        for error in invalid.errors(include_url=False):
            place = [part for part in error["loc"] if part != _OF_A_KEY]
            findings.error((*path, *place), *_words(path, error))
            unsound.add(str(place[0]))
    try:
        return Checked(read(_without(table, unsound)), frozenset(unsound))
    except ValidationError:
        return None


def _words(path: KeyPath, error: Mapping[str, Any]) -> tuple[str, str]:
    if error["type"] != "extra_forbidden":
        return describe(error)
    *around, key = error["loc"]
    return refuse_key(_section((*path, *around)), str(key), _accepted())


def _section(path: KeyPath) -> str:
    """The name in `SECTIONS` of the table at a path."""
    return next(
        section
        for section in SECTIONS
        if len(path) == len(parts := section.split("."))
        and all(part in ("*", key) for part, key in zip(parts, path, strict=True))
    )


def _without(table: dict[str, Any], keys: set[str]) -> dict[str, Any]:
    return {key: value for key, value in table.items() if key not in keys} if keys else table


def _paths_with_nul(value: Any, path: KeyPath = ()) -> Iterator[KeyPath]:
    """Places of text that no system call takes; TOML allows it as an escape."""
    if isinstance(value, str) and "\0" in value:
        yield path
    elif isinstance(value, dict):
        for key, held in value.items():
            if "\0" in key:
                yield (*path, key)
            yield from _paths_with_nul(held, (*path, key))
    elif isinstance(value, list):
        for index, held in enumerate(value):
            yield from _paths_with_nul(held, (*path, index))


def _is_agent_name(name: str, findings: Findings) -> bool:
    path = ("agents", name)
    if name in RESERVED_NAMES:
        findings.error(path, "is a reserved name", f"choose another than {', '.join(sorted(RESERVED_NAMES))}")
    elif "/" in name or name in (".", ".."):
        findings.error(path, "is a path, not a name", _NAME_HINT)
    elif not re.fullmatch(AGENT_NAME_PATTERN, name):
        findings.error(path, "is not a name for an agent", _NAME_HINT)
    else:
        return True
    return False


def _is_pipeline_name(name: str, findings: Findings) -> bool:
    if re.fullmatch(AGENT_NAME_PATTERN, name):
        return True
    findings.error(("pipelines", name), "is not a name for a pipeline", _NAME_HINT)
    return False


def _is_runner_name(name: str, findings: Findings) -> bool:
    if name == "none":
        findings.error(
            ("runners", name), "is a reserved name", 'choose another; "none" is the runner that never starts'
        )
    elif not re.fullmatch(AGENT_NAME_PATTERN, name):
        findings.error(("runners", name), "is not a name for a runner", _NAME_HINT)
    else:
        return True
    return False
