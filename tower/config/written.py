"""A factory under the keys, and in the units, in which its file says it: resolved values, each with where it came from.

The way back from the records of `core.factory`. No secret can be in it, since a file holds only their names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from enum import Enum
from typing import Any, Final

from pydantic import BaseModel

from tower.config.overrides import LayoverTable
from tower.config.schema import AgentTable, DefaultsTable, RunnerTable
from tower.config.tables import TOP
from tower.core.choices import Choice
from tower.core.costs import MICROS, Rate
from tower.core.factory import Agent, Factory, Runner, Settings, Skill
from tower.core.pipelines import Pipeline
from tower.core.prompts import Prompt
from tower.core.routes import Route

BUILT_IN: Final = "built in"
_MEBI: Final = 20
"""Bits by which bytes are shifted to be MiB."""


def _dollars(amount: int | None) -> float | None:
    return None if amount is None else amount / MICROS


_AS_WRITTEN: Final[Mapping[str, tuple[str, Callable[[Any], Any]]]] = {
    "max_log_bytes": ("max_log_mb", lambda size: size >> _MEBI),
    "min_free_bytes": ("min_free_mb", lambda size: size >> _MEBI),
    "keep_worktrees_sec": ("keep_worktrees_hours", lambda seconds: seconds / 3600),
    "shared_writers": ("writers", lambda on: "shared" if on else "exclusive"),
    "fuel": ("fuel_usd", _dollars),
    "reserve": ("reserve_usd", _dollars),
    "assume": ("assume_usd", _dollars),
    "per_credit": ("usd_per_credit", _dollars),
    "private_home": ("config_home", lambda on: "per-agent" if on else "inherit"),
    "instructions": ("prompt", lambda prompt: prompt),
    "env_from": ("env_from", sorted),
}
"""Field of a record -> the key that it was read from, and how its value is written there. Others are what they are."""

Document = dict[str, Any]


def document(factory: Factory) -> Document:
    """Every table of the factory; in `[layover]`, `[defaults]` and agents each value with its origin.

    What agents take from `[defaults]` stands with the agents. Runners are those that have a table of their own.
    """
    return {
        "path": factory.path,
        "digest": factory.digest,
        **settings(factory.settings),
        "runners": {name: runner(it) for name, it in factory.runners.items() if it.kind != name.partition(":")[0]},
        "agents": {name: agent(it) for name, it in factory.agents.items()},
        "pipelines": {name: pipeline(it) for name, it in factory.pipelines.items()},
        "routes": list(routes(factory.routes)),
        **{name: table for name, table in money(factory).items() if name in TOP},
    }


def settings(record: Settings) -> dict[str, Document]:
    """`[layover]`, and of `[defaults]` what holds for the factory as a whole."""
    tables: dict[str, Document] = {"layover": {}, "defaults": {}}
    schemas: dict[str, type[BaseModel]] = {"layover": LayoverTable, "defaults": DefaultsTable}
    for key, value in _pairs(record):
        table = next((name for name, schema in schemas.items() if key in schema.model_fields), None)
        if table is not None:
            origin = record.origins.get(f"{table}.{key}", BUILT_IN)
            tables[table][key] = {"value": value, "origin": str(origin)}
    return tables


def money(factory: Factory) -> dict[str, Document]:
    """`[reserve]`, `[copilot]` and `[rates.MODEL]`."""
    return {
        "reserve": dict(_pairs(factory.reserve)),
        "copilot": {"usd_per_credit": _dollars(factory.per_credit)},
        "rates": {model: _rate(rate) for model, rate in factory.rates.items()},
    }


def _rate(rate: Rate) -> Document:
    return {f"{name}_usd": _dollars(getattr(rate, name)) for name in ("input", "output", "cache_read", "cache_write")}


def agent(record: Agent) -> Document:
    """`[agents.NAME]`, with everything that it inherited."""
    origins = {
        "prompt": "agent",
        "env_from": ", ".join(sorted(set(record.env_from.values()))) or BUILT_IN,
        **record.origins,
    }
    return {
        key: {"value": value, "origin": str(origins.get(key, BUILT_IN))}
        for key, value in _pairs(record)
        if key in AgentTable.model_fields
    }


def runner(record: Runner) -> Document:
    """`[runners.NAME]`."""
    table = {key: value for key, value in _pairs(record) if key in RunnerTable.model_fields}
    return {**table, "estimate": {"base": record.estimate_base, "per_byte": record.estimate_per_byte}}


def pipeline(record: Pipeline) -> Document:
    """`[pipelines.NAME]`."""
    table = {key: value for key, value in _pairs(record) if key not in ("name", "choices")}
    return {**table, "agents": {name: _choice(choice) for name, choice in record.choices.items()}}


def _choice(choice: Choice) -> Document:
    return {**choice.values, **({"args": list(choice.args)} if choice.args else {})}


def routes(records: Iterable[Route]) -> Iterable[Document]:
    """`[[routes]]`: one entry for each sender, or for each join."""
    merged: dict[tuple[Any, ...], dict[str, None]] = {}
    for route in records:
        senders = route.join.senders if route.join else (route.sender,)
        merged.setdefault((senders, route.mode, route.join, route.pipelines), {})[route.receiver] = None
    for (senders, mode, join, pipelines), receivers in merged.items():
        entry: Document = {"from": list(senders), "to": list(receivers), "mode": str(mode)}
        if join is not None:
            entry["join"] = join.count if join.count is not None else str(join.kind)
            entry |= {"timeout_sec": join.timeout_sec, "accept_suspect": join.accept_suspect}
        yield {**entry, "pipelines": sorted(pipelines)} if pipelines is not None else entry


def _pairs(record: Any) -> Iterable[tuple[str, Any]]:
    """Keys and values of a record, as they are written."""
    for field in fields(record):
        key, as_written = _AS_WRITTEN.get(field.name, (field.name, _same))
        yield key, _plain(as_written(getattr(record, field.name)))


def _same(value: Any) -> Any:
    return value


def _plain(value: Any) -> Any:
    """As JSON has it."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Prompt):
        return {"files": sorted(value.digests), "flags": sorted(value.flags), "bytes": len(value.text({}).encode())}
    if isinstance(value, Skill):
        return value.path
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if hasattr(value, "__dataclass_fields__"):
        return {key: one for key, one in _pairs(value) if one is not None}
    return value
