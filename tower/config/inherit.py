"""Inheritance, once, in one pure function: what an agent says, what `[defaults]` says, what is built in.

A key is unset, set, or set to empty. Unset takes the default; empty (`""`, `[]`, `{}`) is an explicit "none". Every
value keeps its origin. What the values mean is left to `agents`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

from tower.config.schema import AgentTable
from tower.core.factory import Agent

_NO_TIERS: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType({})


class Origin(StrEnum):
    """Where a resolved value came from."""

    AGENT = "agent"
    DEFAULTS = "defaults"
    RUNNER = "runner"
    ROLE = "role"
    BOTH = "agent and defaults"
    BUILT_IN = "built in"


INHERITED: Final = (
    "runner",
    "model",
    "effort",
    "tier",
    "context",
    "tools",
    "persona",
    "language",
    "timeout_sec",
    "stall_sec",
    "first_output_sec",
    "linger_sec",
    "mcp_grace_sec",
    "orphan_sec",
    "max_recovery_attempts",
    "memory_bytes",
    "snapshot",
    "snapshot_include",
    "snapshot_writes",
    "sandbox",
    "sandbox_writable",
    "network",
    "fuel_usd",
)
"""Keys that an agent takes from `[defaults]` if it says nothing. `env`, `env_from` and `skills` are joined instead."""

OWN: Final = (
    "description",
    "purpose",
    "role",
    "position",
    "access",
    "entry",
    "enabled",
    "resident",
    "max_turns",
    "max_idle_sec",
    "recovery",
    "recover_on",
    "args",
    "max_concurrent",
    "max_pending",
    "context_budget",
    "memory",
    "approve",
    "reserve_usd",
)
"""Keys that an agent alone gives. Prompt and work_dir are resolved where files are."""

BUILT_IN: Final[Mapping[str, Any]] = {
    "runner": None,
    "fuel_usd": AgentTable.model_fields["fuel_usd"].default,
    "reserve_usd": None,
    **{it.name: it.default for it in fields(Agent) if it.name in {*INHERITED, *OWN} and it.name != "runner"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Inherited:
    """One agent's values after inheritance, with the origin of each."""

    values: Mapping[str, Any]
    """Every key of `INHERITED` and `OWN`; None is none."""
    env: Mapping[str, str]
    env_from: Mapping[str, str]
    """Declared variable -> the key that declared it first."""
    skills: tuple[str, ...]
    """Folders as they are written, those of `[defaults]` first."""
    origins: Mapping[str, str]
    model_left: str | None = None
    """The model of `[defaults]` that was not taken, because the agent names another runner and no model."""


def inherit(
    name: str,
    agent: Mapping[str, Any],
    defaults: Mapping[str, Any],
    runner_env_from: Mapping[str, Sequence[str]],
    tiers: Mapping[str, Mapping[str, str]] = _NO_TIERS,
) -> Inherited:
    """Resolve the agent `name`. The mappings hold only keys that are set.

    `runner_env_from` is by declared runner, `tiers` is runner -> tier -> model.
    """
    values, origins = _values(agent, defaults)
    model_left = _resolve_model(agent, defaults, values, origins, tiers)
    env, origins["env"] = _joined("env", agent, defaults)
    skills, origins["skills"] = _united("skills", agent, defaults)
    return Inherited(
        values=values,
        env=env,
        env_from=_env_from(name, agent, defaults, str(values["runner"]), runner_env_from),
        skills=skills,
        origins=origins,
        model_left=model_left,
    )


def _resolve_model(
    agent: Mapping[str, Any],
    defaults: Mapping[str, Any],
    values: dict[str, Any],
    origins: dict[str, str],
    tiers: Mapping[str, Mapping[str, str]],
) -> str | None:
    """Settle model and tier: a model beats a tier of its level, and a level the one below.

    Returns the model of `[defaults]` that was left, because the agent names another runner and nothing else.
    """
    same = values["runner"] == defaults.get("runner", values["runner"])
    of_runner = tiers.get(str(values["runner"]), {})
    # A model belongs to the runner that it was written for; a tier is meant for any.
    shared = {
        key: defaults[key]
        for key, counts in (("model", same), ("tier", "tier" not in agent))
        if counts and key in defaults
    }
    for table, level in ((agent, Origin.AGENT), (shared, Origin.DEFAULTS)):
        if table.get("tier") is not None and table.get("model") is None:
            values["model"], origins["model"] = of_runner.get(table["tier"]), f"tier {table['tier']} of {level}"
            values["tier"], origins["tier"] = table["tier"], level
            return None
        if "model" in table:
            values["model"], origins["model"] = table["model"], level
            values["tier"] = None
            return None
    values["model"], origins["model"] = None, Origin.BUILT_IN if same else Origin.RUNNER
    return None if same else defaults.get("model")


def _values(agent: Mapping[str, Any], defaults: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Every key, the strongest who says something about it winning."""
    shared = {key: value for key, value in defaults.items() if key in INHERITED}
    own = {key: value for key, value in agent.items() if key in BUILT_IN}
    origins: dict[str, str] = {
        **dict.fromkeys(BUILT_IN, Origin.BUILT_IN),
        **dict.fromkeys(shared, Origin.DEFAULTS),
        **dict.fromkeys(own, Origin.AGENT),
    }
    return {**BUILT_IN, **shared, **own}, origins


def _joined(key: str, agent: Mapping[str, Any], defaults: Mapping[str, Any]) -> tuple[dict[str, str], Origin]:
    """Both tables, the agent's values winning; an empty table of the agent's is an explicit none."""
    own, shared = agent.get(key), defaults.get(key, {})
    if own == {}:
        return {}, Origin.AGENT
    if own and shared:
        return {**shared, **own}, Origin.BOTH
    if own:
        return dict(own), Origin.AGENT
    return dict(shared), Origin.DEFAULTS if shared else Origin.BUILT_IN


def _united(key: str, agent: Mapping[str, Any], defaults: Mapping[str, Any]) -> tuple[tuple[str, ...], Origin]:
    """Both lists, each entry once; an empty list of the agent's is an explicit none."""
    own, shared = agent.get(key), defaults.get(key, ())
    if own == ():
        return (), Origin.AGENT
    united = tuple(dict.fromkeys((*shared, *(own or ()))))
    if own:
        return united, Origin.BOTH if shared else Origin.AGENT
    return united, Origin.DEFAULTS if shared else Origin.BUILT_IN


def _env_from(
    name: str,
    agent: Mapping[str, Any],
    defaults: Mapping[str, Any],
    runner: str,
    runner_env_from: Mapping[str, Sequence[str]],
) -> dict[str, str]:
    """The union of what defaults, runner and agent declare. An agent's `[]` opts out of the defaults' names, not of
    its runner's: without these the program could not work."""
    own = agent.get("env_from")
    declared = [
        ("defaults.env_from", () if own == () else defaults.get("env_from", ())),
        (f"runners.{runner}.env_from", runner_env_from.get(runner, ())),
        (f"agents.{name}.env_from", own or ()),
    ]
    found: dict[str, str] = {}
    for key, variables in declared:
        for variable in variables:
            found.setdefault(variable, key)
    return found
