"""What differs between two factories, in lines that a person reads after a reload.

Long texts and values of variables are never shown; that they changed is.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Final

from tower.config.overrides import LayoverTable
from tower.core.costs import MICROS
from tower.core.factory import Factory, Settings
from tower.core.routes import Route, RouteMode

RESTART: Final = ("state_dir", "socket", "socket_group", "http_addr", "snapshots_dir")
"""Keys of `[layover]` that take effect at a start alone: lock, socket and the runs' places are taken once."""

_UNSHOWN: Final = frozenset({"origins", "name"})
_TEXTS: Final = frozenset({"instructions", "persona", "role", "purpose", "env", "body", "flags", "choices"})
_IN_DOLLARS: Final = {
    "fuel": "fuel_usd",
    "reserve": "reserve_usd",
    "assume": "assume_usd",
    "per_credit": "usd_per_credit",
    "input": "input_usd",
    "output": "output_usd",
    "cache_read": "cache_read_usd",
    "cache_write": "cache_write_usd",
}
"""Fields in micro-dollars, by the key under which the file says them in dollars."""

_LONGEST: Final = 60
"""Characters of a value that are shown."""


def diff(old: Factory, new: Factory) -> tuple[str, ...]:
    """Lines such as `agents.coder: timeout_sec 3600 -> 60`: settings, runners, agents, routes, pipelines."""
    return (
        *_settings(old.settings, new.settings),
        *_tables("runners", old.runners, new.runners),
        *_tables("agents", old.agents, new.agents),
        *_routes(old.routes, new.routes),
        *_tables("pipelines", old.pipelines, new.pipelines),
        *_tables("rates", old.rates, new.rates),
        *_money(old, new),
    )


def needs_restart(old: Factory, new: Factory) -> tuple[str, ...]:
    """Keys (`layover.socket`) whose change waits for the next start of the tower."""
    return tuple(f"layover.{key}" for key in RESTART if getattr(old.settings, key) != getattr(new.settings, key))


def _settings(old: Settings, new: Settings) -> Iterable[str]:
    before, after = _as_written(old), _as_written(new)
    for key, value in before.items():
        if value != after[key]:
            yield f"{key} {_shown(value)} -> {_shown(after[key])}"


def _as_written(settings: Settings) -> dict[str, Any]:
    """Settings under the keys, and in the units, in which they stand in the file."""
    values = {field.name: getattr(settings, field.name) for field in dataclasses.fields(settings)}
    keys = {f"layover: {name}": values[name] for name in values if name in LayoverTable.model_fields}
    return {
        **keys,
        "layover: max_log_mb": settings.max_log_bytes >> 20,
        "layover: min_free_mb": settings.min_free_bytes >> 20,
        "layover: keep_worktrees_hours": settings.keep_worktrees_sec / 3600,
        "layover: notify": settings.notify,
        "defaults: max_concurrent_runs": settings.max_concurrent_runs,
        "defaults: max_hops": settings.max_hops,
        "defaults: max_runs": settings.max_runs,
        "defaults: max_spawn_generations": settings.max_spawn_generations,
        "defaults: reserve_usd": settings.reserve / MICROS,
        "defaults: fuel_action": settings.fuel_action,
        "defaults: writers": "shared" if settings.shared_writers else "exclusive",
    }


def _money(old: Factory, new: Factory) -> Iterable[str]:
    pairs = {
        "reserve: fuel_usd": (old.reserve.fuel / MICROS, new.reserve.fuel / MICROS),
        "reserve: window_hours": (old.reserve.window_hours, new.reserve.window_hours),
        "copilot: usd_per_credit": (old.per_credit / MICROS, new.per_credit / MICROS),
    }
    for key, (before, after) in pairs.items():
        if before != after:
            yield f"{key} {_shown(before)} -> {_shown(after)}"


def _tables(kind: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterable[str]:
    for name in sorted(old.keys() | new.keys()):
        if name not in new:
            yield f"{kind}.{name}: removed"
        elif name not in old:
            yield f"{kind}.{name}: added"
        else:
            for key, before, after in _fields(old[name], new[name]):
                change = "changed" if key in _TEXTS else f"{_shown(before)} -> {_shown(after)}"
                yield f"{kind}.{name}: {key} {change}"


def _routes(old: Iterable[Route], new: Iterable[Route]) -> Iterable[str]:
    before, after = frozenset(old), frozenset(new)
    for route in sorted(
        before ^ after, key=lambda route: (route.sender, route.receiver, route.mode, sorted(route.pipelines or ()))
    ):
        mode = " (spawn)" if route.mode is RouteMode.SPAWN else _join(route)
        scope = f" in {', '.join(sorted(route.pipelines))}" if route.pipelines else ""
        yield f"routes: {route.sender} -> {route.receiver}{mode}{scope} {'added' if route in after else 'removed'}"


def _join(route: Route) -> str:
    join = route.join
    if join is None:
        return ""
    more = (f", timeout_sec {join.timeout_sec:g}" if join.timeout_sec else "") + (
        ", accept_suspect" if join.accept_suspect else ""
    )
    return f" (join {join.count or join.kind} of {', '.join(join.senders)}{more})"


def _fields(old: Any, new: Any) -> Iterable[tuple[str, Any, Any]]:
    for field in dataclasses.fields(old):
        before, after = getattr(old, field.name), getattr(new, field.name)
        if field.name not in _UNSHOWN and before != after:
            name = _IN_DOLLARS.get(field.name)
            if name is None:
                yield field.name, before, after
            else:
                yield name, _dollars(before), _dollars(after)


def _dollars(amount: int | None) -> float | None:
    return None if amount is None else amount / MICROS


def _shown(value: Any) -> str:
    text = _text(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _text(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, str):
        return repr(value)
    if isinstance(value, Mapping | frozenset):
        return f"[{', '.join(sorted(value))}]"
    if isinstance(value, tuple):
        return f"[{', '.join(map(_text, value))}]"
    return str(value)
