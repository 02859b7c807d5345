"""What agents, routes and pipelines mean together: what no message can reach, what there is no room for.

What one agent says is looked at in `agents` and `places`, the routes themselves in `routes`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping

from tower.config.positions import KeyPath
from tower.config.problems import Findings
from tower.config.tables import Tables
from tower.core.factory import Agent


def check_git(tables: Tables, environ: Mapping[str, str], findings: Findings) -> None:
    """Refuse snapshots and work trees, which git makes, where the tower would find no git."""
    if shutil.which("git", path=environ.get("PATH", os.defpath)):
        return
    for name, agent in tables.agents.items():
        if agent.value.access == "read-only":
            findings.error(
                ("agents", name, "access"),
                "read-only needs git for its snapshots, and there is none on the PATH",
                "install git, or put its folder on the PATH that the tower is started with",
            )
    for name, pipeline in tables.pipelines.items():
        if pipeline.value.workspace == "per-itinerary":
            findings.error(
                ("pipelines", name, "workspace"),
                "work trees are made by git, and there is none on the PATH",
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
            f"there are {kept} residents, and max_concurrent_runs is {slots}",
            f"write max_concurrent_runs = {kept} or more in [defaults]",
        )
    elif kept < len(enabled):
        findings.warning(
            place,
            "residents keep every slot, so that no other agent ever starts",
            f"write max_concurrent_runs = {kept + 1} or more in [defaults]",
        )
