"""Money as the file says it: `[reserve]`, `[rates]` and `[copilot]` as records, and budgets that let nothing start.

The file is in dollars, the records are in micro-dollars; here, and in `agents` and `runners`, is where they meet.
"""

from __future__ import annotations

from tower.config.positions import KeyPath
from tower.config.problems import Findings
from tower.config.schema import RateTable
from tower.config.tables import Tables
from tower.core.budget import estimate
from tower.core.costs import Rate, dollars, parse
from tower.core.factory import Factory, Reserve


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


def check_money(factory: Factory, findings: Findings) -> None:
    """Warn of what can never start, since what is set aside for a run is more than there is."""
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
