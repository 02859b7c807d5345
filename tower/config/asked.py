"""What is asked of an agent's program: model, tier, effort, context, tools, and whether its runner can be.

Which value an agent has is `inherit`'s; how a command is filled with it is left to `tower.runners`.
"""

from __future__ import annotations

from typing import Final

from tower.config.inherit import Inherited, Origin
from tower.config.known import brief, nearest
from tower.config.positions import KeyPath
from tower.config.problems import Findings
from tower.config.schema import AgentTable
from tower.config.tables import Tables
from tower.config.values import EFFORTS, TIERS
from tower.core.errors import InvalidError
from tower.core.factory import Factory, Runner
from tower.core.runner_spec import parse_spec

_PLACED: Final = ("model", "effort", "context")
"""Each has a placeholder, and a LAYOVER_ variable."""

_NEVER_STARTED: Final = frozenset({"unavailable", "none"})
_UNRESTRICTED: Final = frozenset({"command", "cmd", "fake"})
"""Kinds of which no flag is known that restricts tools."""


def check_tiers(tables: Tables, findings: Findings) -> None:
    """Refuse models in `[tiers]` for runners that there are not."""
    for tier in TIERS:
        for name in getattr(tables.tiers.value, tier):
            if name not in tables.runner_names and not _is_spec(name):
                findings.error(
                    ("tiers", tier, name),
                    f"there is no runner {name!r}",
                    nearest(name, tables.runner_names, "write the name of a [runners.NAME], and the model after it"),
                )
    defaults = tables.defaults.value
    if defaults.model is not None and defaults.tier is not None:
        _warn_beaten(("defaults", "tier"), findings)


def models_by_tier(tables: Tables) -> dict[str, dict[str, str]]:
    """Runner -> tier -> model: what the runner says itself beats what `[tiers]` says of it."""
    models: dict[str, dict[str, str]] = {}
    for tier in TIERS:
        for name, model in getattr(tables.tiers.value, tier).items():
            models.setdefault(name, {})[tier] = model
    for name, checked in tables.runners.items():
        models.setdefault(name, {}).update({str(tier): model for tier, model in checked.value.tiers.items()})
    return models


def check_asked(name: str, table: AgentTable, inherited: Inherited, runner: Runner, findings: Findings) -> None:
    """Look at what agent `name` asks of its runner. `table` is what it says itself."""
    if table.model is not None and table.tier is not None:
        _warn_beaten(("agents", name, "tier"), findings)
    values = inherited.values
    by_tier = values["tier"] is not None
    if by_tier and values["model"] is None and runner.kind == "command":
        findings.warning(
            _written(name, "tier", inherited),
            f"runner {brief(runner.name)} has no model for it",
            f'write tiers = {{ {values["tier"]} = "MODEL" }} in [runners.{runner.name}];'
            " the program finds it in LAYOVER_TIER all the same",
        )
    for key in _PLACED:
        if values[key] is not None:
            place = _written(name, "tier" if key == "model" and by_tier else key, inherited)
            _check_place(key, values[key], values["args"], runner, place, findings)


def check_choices(factory: Factory, findings: Findings) -> None:
    """Look at what pipelines ask of the runners of agents in place of the agents' own."""
    for name, pipeline in factory.pipelines.items():
        for agent in (factory.agents[it] for it in pipeline.choices):
            runner, choice = factory.runners[agent.runner], pipeline.choices[agent.name]
            for key, value in choice.values.items():
                if value is not None:
                    place: KeyPath = ("pipelines", name, "agents", agent.name, key)
                    _check_place(key, value, (*agent.args, *choice.args), runner, place, findings)


def check_tools(name: str, inherited: Inherited, shared: tuple[str, ...] | None, runner: Runner, f: Findings) -> None:
    """Refuse tools that `[defaults]` (`shared`) does not have, and a runner that cannot be held to a list of them."""
    tools, path = inherited.values["tools"], _written(name, "tools", inherited)
    if tools is None:
        return
    for index, tool in enumerate(tools):
        if shared is not None and tool not in shared:
            f.error(
                (*path, index),
                f"agent {name} may only narrow the tools of [defaults], and {tool} is not among them",
                nearest(tool, shared, f"[defaults] has {', '.join(shared) or 'none'}; add it there, or remove it here"),
            )
    if runner.kind in _UNRESTRICTED:
        f.error(
            path,
            f"runner {brief(runner.name)} has no flag that holds its program to a list of tools",
            "remove tools, and restrict the program through args of its own",
        )


def _check_place(
    key: str, value: str, args: tuple[str, ...], runner: Runner, path: KeyPath, findings: Findings
) -> None:
    """Warn when a runner cannot be asked for a value of `key`, which is written at `path`."""
    words = (*runner.command, *runner.args, *args)
    if runner.kind == "command" and not any(f"{{{key}}}" in word for word in words):
        findings.warning(
            path,
            f"runner {brief(runner.name)} has no place for {'it' if path[-1] == key else f'the {key} it stands for'}",
            f"write {{{key}}} into its command; the program finds it in LAYOVER_{key.upper()} all the same",
        )
    elif key == "effort" and runner.efforts.get(value) == "":
        closest = _closest(value, runner)
        findings.warning(
            path,
            f"runner {brief(runner.name)} does not have it, so that nothing is asked",
            f'write "{closest}", the nearest that it has' if closest else "remove it",
        )


def _warn_beaten(path: KeyPath, findings: Findings) -> None:
    findings.warning(path, "has no effect, since a model is set beside it", "keep one of the two")


def _closest(effort: str, runner: Runner) -> str | None:
    """The nearest level that the runner has; of two equally near, the lower."""
    place = EFFORTS.index(effort)
    there = [level for level in EFFORTS if runner.efforts.get(level) != ""]
    return min(there, key=lambda level: (abs(EFFORTS.index(level) - place), EFFORTS.index(level)), default=None)


def _is_spec(name: str) -> bool:
    try:
        return parse_spec(name).kind not in _NEVER_STARTED
    except InvalidError:
        return False


def _written(name: str, key: str, inherited: Inherited) -> KeyPath:
    """Where the value of an agent's key is written."""
    return ("defaults", key) if inherited.origins[key] == Origin.DEFAULTS else ("agents", name, key)
