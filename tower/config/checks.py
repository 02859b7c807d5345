"""What agents, routes and pipelines mean together: what no message can reach, what there is no room for.

What one agent says is looked at in `agents` and `places`, the routes themselves in `routes`.
"""

from __future__ import annotations

import os
import shutil
from collections import deque
from collections.abc import Iterable, Mapping

from tower.config.positions import KeyPath
from tower.config.problems import Findings
from tower.config.tables import Tables
from tower.core.factory import Agent, Factory
from tower.core.routes import Route, RouteMode, Scope, usable


def check_git(tables: Tables, environ: Mapping[str, str], findings: Findings) -> None:
    """Refuse a read-only agent, whose snapshots git takes, where the tower would find no git."""
    if shutil.which("git", path=environ.get("PATH", os.defpath)):
        return
    for name, agent in tables.agents.items():
        if agent.value.access == "read-only":
            findings.error(
                ("agents", name, "access"),
                "read-only needs git for its snapshots, and there is none on the PATH",
                "install git, or put its folder on the PATH that the tower is started with",
            )


def check_ways_in(tables: Tables, findings: Findings) -> None:
    """Refuse a factory that no message can enter."""
    if not tables.agent_names:
        if not findings.has_errors:
            findings.error(("agents",), "no agent is declared", "`tower init` writes a factory that runs at once")
        return
    # An agent that could not be read may have been meant as the way in.
    misread = tables.agents.keys() != tables.agent_names
    entries = any(agent.value.entry or "entry" in agent.unsound for agent in tables.agents.values())
    if not misread and not entries and not tables.pipeline_names:
        findings.error(
            ("agents",),
            "there is no way in: no agent may be sent to, and there is no pipeline",
            "write entry = true in at least one agent",
        )


def check_reach(factory: Factory, findings: Findings) -> None:
    """Warn about agents without a description, and those that no chain can wake. For a factory without errors."""
    max_hops, distance = factory.settings.max_hops, _nearest_way_in(factory)
    for name, agent in factory.agents.items():
        path = ("agents", name)
        if agent.description is None:
            findings.warning(path, "has no description", "write one line for the agents that may send to it")
        if not agent.enabled:
            continue
        if name not in distance:
            findings.warning(
                path,
                "nothing can wake it: it is no way in, and no routes lead to it from one",
                "write entry = true, or a route to it",
            )
        elif distance[name] >= max_hops:
            findings.warning(
                path,
                f"is {distance[name] + 1} flights from every way in, and max_hops is {max_hops}",
                "raise max_hops in [defaults], or add a shorter route",
            )


def check_slots(agents: Mapping[str, Agent], slots: int, findings: Findings) -> None:
    """Every resident keeps a slot for its process: refuse more of them than there are, and warn when none is left."""
    enabled = [agent for agent in agents.values() if agent.enabled]
    kept = sum(agent.resident for agent in enabled)
    if kept < slots:
        return
    path: KeyPath = ("defaults", "max_concurrent_runs")
    place = path if path in findings.sources else ("agents", *(agent.name for agent in enabled if agent.resident))[:2]
    if kept > slots:
        findings.error(
            place,
            f"there are {kept} residents, and {slots} runs may be alive at once",
            f"write max_concurrent_runs = {kept} or more in [defaults]",
        )
    elif kept < len(enabled):
        findings.warning(
            place,
            f"the {kept} residents keep all {slots} slots, so that no other agent ever starts",
            f"write max_concurrent_runs = {kept + 1} or more in [defaults]",
        )


def _nearest_way_in(factory: Factory) -> dict[str, int]:
    """Hops from the nearest way in to each agent that a chain can reach, along the routes of that chain."""
    entries = [(Scope(), [name for name, agent in factory.agents.items() if agent.entry])]
    entries += [(Scope(pipeline=name), [pipeline.entry]) for name, pipeline in factory.pipelines.items()]
    found: dict[str, int] = {}
    for scope, names in entries:
        for name, hops in distances(names, usable(factory.routes, scope)).items():
            found[name] = min(hops, found.get(name, hops))
    return found


def distances(ways_in: Iterable[str], routes: Iterable[Route]) -> dict[str, int]:
    """How many hops the shortest way to each agent that can be reached spends; 0 for a way in.

    A route that opens a new chain spends none, since the new chain has hops of its own.
    """
    after: dict[str, list[Route]] = {}
    for route in routes:
        after.setdefault(route.sender, []).append(route)
    distance: dict[str, int] = {}
    front = deque((name, 0) for name in ways_in)
    while front:
        name, hops = front.popleft()
        if name in distance:
            continue
        distance[name] = hops
        for route in after.get(name, ()):
            if route.mode is RouteMode.SPAWN:
                front.appendleft((route.receiver, 0))
            else:
                front.append((route.receiver, hops + 1))
    return distance
