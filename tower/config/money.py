"""Money as the file says it: `[reserve]`, `[rates]` and `[copilot]` as records, and budgets that let nothing start.

The file is in dollars, the records are in micro-dollars; here, and in `agents` and `runners`, is where they meet.
"""

from __future__ import annotations

from typing import Final

from tower.config.positions import KeyPath
from tower.config.problems import Findings
from tower.config.schema import RateTable
from tower.config.tables import Tables
from tower.core.budget import estimate
from tower.core.costs import Rate, dollars, parse
from tower.core.factory import Factory, Reserve

_SILENT: Final = frozenset({"command", "cmd"})
"""Kinds whose programs are read as plain text, if their runner does not say how."""


def micros(amount: float | None) -> int | None:
    """Micro-dollars of a checked amount of the file."""
    return None if amount is None else parse(amount)


def reserve(tables: Tables) -> Reserve:
    """`[reserve]`."""
    table = tables.reserve.value
    return Reserve(fuel=parse(table.fuel_usd), window_hours=table.window_hours)


def rates(tables: Tables) -> dict[str, Rate]:
    """`[rates.MODEL]`, per million tokens."""
    return {model: _rate(checked.value) for model, checked in tables.rates.items()}


def _rate(table: RateTable) -> Rate:
    return Rate(
        input=parse(table.input_usd),
        output=parse(table.output_usd),
        cache_read=micros(table.cache_read_usd),
        cache_write=micros(table.cache_write_usd),
    )


def check_money(factory: Factory, tables: Tables, findings: Findings) -> None:
    """Warn of budgets that let nothing start, and of those that the programs say nothing to."""
    _check_room(factory, findings)
    if _is_bounded(tables):
        _check_sources(factory, tables, findings)


def _check_room(factory: Factory, findings: Findings) -> None:
    """What is set aside for a run may be more than there is."""
    limit = factory.reserve.fuel
    for name, agent in factory.agents.items():
        expected = estimate(agent, factory.settings, ())
        asks = agent.reserve is not None
        path: KeyPath = ("agents", name, "reserve_usd") if asks else ("agents", name)
        if 0 < limit < expected:
            findings.warning(
                path,
                f"sets {dollars(expected)} aside for a run, and reserve.fuel_usd is {dollars(limit)}: nothing starts",
                "raise [reserve] fuel_usd, or lower reserve_usd",
            )
        elif agent.entry and expected > agent.fuel:
            findings.warning(
                path,
                f"sets {dollars(expected)} aside for a run, and its chains have {dollars(agent.fuel)} of Fuel:"
                " nothing starts",
                "raise fuel_usd, or lower reserve_usd",
            )


def _is_bounded(tables: Tables) -> bool:
    """Whether the file itself says how much may be spent: the built-in bounds are nobody's decision."""
    agents = (checked.value for checked in tables.agents.values())
    return any("fuel_usd" in said.model_fields_set for said in (tables.reserve.value, tables.defaults.value, *agents))


def _check_sources(factory: Factory, tables: Tables, findings: Findings) -> None:
    """A program that never says what a run cost makes a budget one of guesses: once for each runner."""
    for runner in factory.runners.values():
        users = [agent for agent in factory.agents.values() if agent.runner == runner.name and agent.enabled]
        speaks = runner.output != "text" or runner.kind not in _SILENT or runner.assume is not None
        if speaks or not users or users[0].resident:
            continue
        aside, is_declared = dollars(estimate(users[0], factory.settings, ())), runner.name in tables.runners
        where = "write assume_usd here" if is_declared else "declare its runner as [runners.NAME] with assume_usd"
        findings.warning(
            ("runners", runner.name) if is_declared else ("agents", users[0].name),
            f"cannot say what a run cost, so that each counts as the {aside} set aside for it",
            f'{where} (0 for a program that calls no model), or output = "report" for one that reports it',
        )
