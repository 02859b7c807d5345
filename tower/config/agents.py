"""Agent records: inheritance applied, texts read, places resolved.

One agent is looked at a time; what agents mean to one another is left to `checks`, where one works to `places`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from tower.config.asked import check_asked, check_tiers, check_tools, models_by_tier
from tower.config.composition import Tested
from tower.config.inherit import Inherited, Origin, inherit
from tower.config.instructions import InstructionReader, Told
from tower.config.known import brief
from tower.config.money import micros
from tower.config.places import WorkTrees
from tower.config.positions import KeyPath
from tower.config.problems import Findings
from tower.config.runners import Runners, check_placeholders
from tower.config.schema import AgentTable
from tower.config.tables import Checked, Tables
from tower.config.texts import Library
from tower.core.costs import parse
from tower.core.factory import Access, Agent, Position, RecoveryPolicy, Runner

_NEVER_A_MODEL = frozenset({"fake", "unavailable", "none"})


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentReader:
    """Makes the agents of one factory from its tables; problems go to `findings`."""

    tables: Tables
    runners: Runners
    library: Library
    work_trees: WorkTrees
    findings: Findings
    tested: dict[str, tuple[Tested, ...]] = field(default_factory=dict)
    """Agent -> where its instructions test flags; known once they are read."""

    def read(self) -> dict[str, Agent]:
        """Every agent that could be made."""
        defaults = self.tables.defaults.given
        runner_env_from = {name: checked.value.env_from for name, checked in self.tables.runners.items()}
        tiers = models_by_tier(self.tables)
        check_tiers(self.tables, self.findings)
        texts = InstructionReader(self.tables, self.library, self.findings)
        agents = {}
        for name, checked in self.tables.agents.items():
            inherited = inherit(name, checked.given, defaults, runner_env_from, tiers)
            agent = self._agent(name, checked, inherited, texts.read(name, checked, inherited))
            if agent is not None:
                agents[name] = agent
        return agents

    def _agent(self, name: str, checked: Checked[AgentTable], inherited: Inherited, told: Told | None) -> Agent | None:
        runner = self._runner(name, checked, inherited)
        work_dir = self.work_trees.resolve(name)
        check_placeholders(checked.value.args, ("agents", name, "args"), self.findings)
        self._check_variables(name, inherited)
        self._check_resident(name, checked, runner)
        self._check_limits(name, inherited)
        if runner is None or told is None:
            return None
        self.tested[name] = told.tested
        values = {**inherited.values, "runner": runner, "persona": told.persona, "role": told.role}
        origins = {**inherited.origins, "work_dir": Origin.AGENT if checked.value.work_dir else "layover.work_dir"}
        is_the_role = checked.value.prompt is None and checked.value.prompt_file is None
        origins["prompt"] = Origin.ROLE if is_the_role else Origin.AGENT
        values["sandbox_writable"] = self._sandbox_writable(name, inherited)
        for key, of_the_role in (("description", told.description), ("position", told.position)):
            if key not in checked.value.model_fields_set and of_the_role is not None:
                values[key], origins[key] = of_the_role, Origin.ROLE
        values["fuel"] = parse(values.pop("fuel_usd"))
        values["reserve"] = micros(values.pop("reserve_usd"))
        values["access"] = Access(values["access"])
        values["position"] = Position(values["position"])
        values["recovery"] = RecoveryPolicy(values["recovery"])
        values["recover_on"] = frozenset(values["recover_on"])
        return Agent(
            name=name,
            instructions=told.instructions,
            skills=told.skills,
            work_dir=work_dir,
            env=inherited.env,
            env_from=inherited.env_from,
            origins=origins,
            **values,
        )

    def _runner(self, name: str, checked: Checked[AgentTable], inherited: Inherited) -> str | None:
        text = inherited.values["runner"]
        if text is None:
            if "runner" not in checked.unsound | self.tables.defaults.unsound:
                self.findings.error(
                    ("agents", name), "has no runner", f"write runner in [agents.{name}] or in [defaults]"
                )
            return None
        path = self._written(name, "runner", inherited)
        runner = self.runners.get(text, path)
        if runner is None:
            return None
        if inherited.model_left is not None and runner.kind not in _NEVER_A_MODEL:
            given = self.tables.defaults.value
            self.findings.warning(
                path,
                f"agent {name} uses the own model of runner {brief(text)}: {inherited.model_left}, the model of"
                f" [defaults], is for runner {brief(str(given.runner))}",
                f'write model in [agents.{name}] ("" says that this is meant), or move it out of [defaults]',
            )
        self._check_budget(name, inherited, runner)
        check_asked(name, checked.value, inherited, runner, self.findings)
        check_tools(name, inherited, self.tables.defaults.value.tools, runner, self.findings)
        return runner.name

    def _check_budget(self, name: str, inherited: Inherited, runner: Runner) -> None:
        budget = inherited.values["context_budget"]
        if budget is not None and budget < runner.estimate_base:
            self.findings.warning(
                ("agents", name, "context_budget"),
                f"holds every flight: even an empty one is taken for {runner.estimate_base:g} tokens",
                "raise it, or lower base in the runner's estimate",
            )

    def _check_limits(self, name: str, inherited: Inherited) -> None:
        """Warn of a limit that another one always comes before."""
        timeout = inherited.values["timeout_sec"]
        for key in ("stall_sec", "first_output_sec"):
            limit = inherited.values[key]
            if limit is not None and limit > timeout:
                self.findings.warning(
                    self._written(name, key, inherited),
                    f"never ends a run of {name}, whose timeout_sec is {timeout:g}",
                    "write less than timeout_sec",
                )

    def _sandbox_writable(self, name: str, inherited: Inherited) -> tuple[str, ...]:
        """Absolute paths; `~` is the tower's home."""
        found = []
        for index, place in enumerate(inherited.values["sandbox_writable"]):
            path = os.path.expanduser(place)  # noqa: PTH111 - a path may be relative, which is refused here
            if path.startswith("/"):
                found.append(os.path.normpath(path))
            else:
                self.findings.error(
                    (*self._written(name, "sandbox_writable", inherited), index),
                    f"names {place}, which is not an absolute path",
                    "write it from / or from ~/ on",
                )
        return tuple(found)

    def _check_resident(self, name: str, checked: Checked[AgentTable], runner: str | None) -> None:
        """Refuse a resident that could not be one, and what is said of one where there is none."""
        table, path = checked.value, ("agents", name)
        if not table.resident:
            for key in ("max_turns", "max_idle_sec"):
                if getattr(table, key) is not None and "resident" not in checked.unsound:
                    self.findings.warning((*path, key), "is for residents alone", "write resident = true, or remove it")
            return
        if runner is not None and self.runners.found[runner].protocol is None:
            self.findings.error(
                (*path, "resident"),
                f"runner {brief(runner)} cannot be resident: it has no protocol",
                f"write protocol in [runners.{runner}], or remove resident"
                if runner in self.tables.runner_names
                else "name a runner of [runners.NAME] that has a protocol, or remove resident",
            )
        if table.max_concurrent is not None and table.max_concurrent > 1:
            self.findings.error(
                (*path, "max_concurrent"), "a resident takes one flight at a time", "remove it, or remove resident"
            )

    def _check_variables(self, name: str, inherited: Inherited) -> None:
        for variable in inherited.env.keys() & inherited.env_from.keys():
            path: KeyPath = ("agents", name, "env", variable)
            self.findings.error(
                path if path in self.findings.sources else ("defaults", "env", variable),
                f"is set here and forwarded by {inherited.env_from[variable]}",
                "keep one of the two",
            )

    def _written(self, name: str, key: str, inherited: Inherited) -> KeyPath:
        """Where the value of an agent's key is written."""
        return ("defaults", key) if inherited.origins[key] == Origin.DEFAULTS else ("agents", name, key)
