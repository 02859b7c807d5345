"""Routes and pipelines as the file declares them: who may send to whom in which chains, and the named ways in.

Names that nothing has, and declarations that contradict each other, are refused. How far a way in reaches is `checks`'.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import product
from typing import Final

from tower.config.known import nearest
from tower.config.positions import KeyPath
from tower.config.problems import Findings
from tower.config.runners import check_placeholders
from tower.config.tables import Tables
from tower.config.ways import PipelineTable, RouteTable
from tower.core.choices import KEYS, Choice
from tower.core.pipelines import Flag, Pipeline
from tower.core.routes import Join, JoinKind, Route, RouteMode

_SHOWN: Final = 10
"""Names that a hint lists."""

_FLAG: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")


def read_routes(tables: Tables, findings: Findings) -> tuple[Route, ...]:
    """The edges that `[[routes]]` declare, each once for every scope that it is declared with."""
    found: dict[Route, None] = {}
    by_receiver: dict[str, list[Route]] = {}
    for index, checked in tables.routes.items():
        for route in _edges(checked.value, index, tables, findings):
            before = by_receiver.setdefault(route.receiver, [])
            _check_agreement(route, before, index, findings)
            before.append(route)
            found[route] = None
    return tuple(found)


def _edges(table: RouteTable, index: int, tables: Tables, findings: Findings) -> Iterable[Route]:
    senders = _known(table.senders, ("routes", index, "from"), "agent", tables.agent_names, findings)
    receivers = _known(table.receivers, ("routes", index, "to"), "agent", tables.agent_names, findings)
    pipelines = None
    if table.pipelines is not None:
        path = ("routes", index, "pipelines")
        pipelines = frozenset(_known(table.pipelines, path, "pipeline", tables.pipeline_names, findings))
    join = _read_join(table, index, findings)
    for sender, receiver in product(senders, receivers):
        yield Route(sender=sender, receiver=receiver, mode=RouteMode(table.mode), join=join, pipelines=pipelines)


def _read_join(table: RouteTable, index: int, findings: Findings) -> Join | None:
    senders = tuple(dict.fromkeys(table.senders))
    if table.join is None:
        for key in ("timeout_sec", "accept_suspect"):
            if key in table.model_fields_set:
                findings.error(
                    ("routes", index, key), "says something of a join, and there is none", "write join, or remove it"
                )
        return None
    path = ("routes", index, "join")
    if table.mode == "spawn":
        findings.error(
            path, "cannot hold where each flight opens a chain of its own", 'remove it, or write mode = "async"'
        )
    elif len(senders) == 1:
        findings.error(path, f"has one sender, {senders[0]}", "name several in from, or remove it")
    elif isinstance(table.join, int) and table.join > len(senders):
        findings.error(path, f"waits for {table.join} of {len(senders)} senders", f"write at most {len(senders)}")
    return Join(
        kind=JoinKind.QUORUM if isinstance(table.join, int) else JoinKind(table.join),
        senders=senders,
        count=table.join if isinstance(table.join, int) else None,
        timeout_sec=table.timeout_sec,
        accept_suspect=table.accept_suspect,
    )


def _check_agreement(route: Route, before: Iterable[Route], index: int, findings: Findings) -> None:
    """A pair of agents has one mode and one join in a chain, and a receiver one join at most."""
    for earlier in before:
        if not earlier.overlaps(route):
            continue
        if earlier.sender == route.sender and (earlier.mode, earlier.join) != (route.mode, route.join):
            findings.error(
                ("routes", index),
                f"the route from {route.sender} to {route.receiver} is declared {_shown(earlier)} before, and"
                f" {_shown(route)} here, and one chain may use both",
                "declare each pair of agents once, or alike, or for different pipelines",
            )
        elif earlier.join and route.join and earlier.join != route.join:
            findings.error(
                ("routes", index),
                f"{route.receiver} has a join of {', '.join(earlier.join.senders)} already, and one chain may use both",
                "name all senders in one route, or declare the routes for different pipelines",
            )


def _shown(route: Route) -> str:
    join = route.join
    if join is None:
        return f"{route.mode} without a join"
    named = ", ".join(join.senders)
    return f"with join = {join.count or join.kind} of {named}"


def read_pipelines(tables: Tables, findings: Findings) -> dict[str, Pipeline]:
    """The ways in that `[pipelines.NAME]` declare."""
    pipelines = {name: _pipeline(name, checked.value, tables, findings) for name, checked in tables.pipelines.items()}
    _check_flags(pipelines, findings)
    return pipelines


def _pipeline(name: str, table: PipelineTable, tables: Tables, findings: Findings) -> Pipeline:
    path: KeyPath = ("pipelines", name)
    _known([table.entry], (*path, "entry"), "agent", tables.agent_names, findings)
    for flag in table.flags:
        if not _FLAG.fullmatch(flag):
            findings.error(
                (*path, "flags", flag),
                "is not a name for a flag",
                "use at most 64 letters, digits and _, beginning with no digit",
            )
    choices = {}
    for agent, choice in table.agents.items():
        place: KeyPath = (*path, "agents", agent)
        if _known([agent], place, "agent", tables.agent_names, findings):
            _check_choice(agent, place, tables, findings)
        check_placeholders(choice.args, (*place, "args"), findings)
        values = choice.model_dump(exclude_unset=True, include=set(KEYS))
        choices[agent] = Choice(values=values, args=choice.args)
    return Pipeline(
        name=name,
        entry=table.entry,
        description=table.description,
        priority=table.priority,
        body=table.body,
        own_worktrees=table.workspace == "per-itinerary",
        flags={
            flag: Flag(default=declared.default, description=declared.description)
            for flag, declared in table.flags.items()
        },
        choices=choices,
    )


def _check_choice(agent: str, path: KeyPath, tables: Tables, findings: Findings) -> None:
    checked = tables.agents.get(agent)
    if checked is not None and checked.value.resident:
        findings.error(
            path,
            f"{agent} is resident: one process of it serves the chains of every pipeline",
            "remove it, or name an agent that is not resident",
        )


def _check_flags(pipelines: dict[str, Pipeline], findings: Findings) -> None:
    """Prompts are shared: a flag that means yes in one pipeline and no in another, unasked, is easily overlooked."""
    first: dict[str, Pipeline] = {}
    for pipeline in pipelines.values():
        for name, flag in pipeline.flags.items():
            before = first.setdefault(name, pipeline)
            if before.flags[name].default != flag.default:
                findings.warning(
                    ("pipelines", pipeline.name, "flags", name),
                    f"has another default than in pipeline {before.name}",
                    "write the same default in both, or give one of the flags another name",
                )


def _known(names: Iterable[str], path: KeyPath, kind: str, known: Iterable[str], findings: Findings) -> list[str]:
    """Those of `names` that are declared; the others are refused, each at its own place."""
    found = []
    for index, name in enumerate(names):
        if name in known:
            found.append(name)
            continue
        place: KeyPath = (*path, index)
        findings.error(
            place if place in findings.sources else path,
            f"there is no {kind} {name!r}",
            nearest(name, known, _there_are(kind, known)),
        )
    return found


def _there_are(kind: str, known: Iterable[str]) -> str:
    names = sorted(known)
    shown = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
    return f"there are {shown or 'none'}; a new one is declared in [{kind}s.NAME]"
