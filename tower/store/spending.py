"""What ended runs cost, grouped for people. A run that never started is none of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tower.core.costs import CostSource
from tower.store.database import Connection, rows

GROUPS: Final[Mapping[str, str]] = {
    "agent": "runs.agent",
    "model": "coalesce(runs.model, runs.model_asked)",
    "pipeline": "itineraries.pipeline",
    "day": "date(runs.ended_at, 'unixepoch', 'localtime')",
}
"""By what costs are shown -> the expression. Days are those of the machine's time zone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Runs of one group whose cost has one source. Micro-dollars."""

    source: CostSource
    runs: int
    cost: int
    charged: int

    @property
    def is_known(self) -> bool:
        return self.source is not CostSource.UNREPORTED


def total(connection: Connection, *, since: float | None, until: float | None) -> list[Part]:
    """All of them, a part for each source."""
    return next((parts for _, parts in _grouped(connection, "NULL", since, until)), [])


def grouped(
    connection: Connection, by: str, *, since: float | None, until: float | None
) -> list[tuple[str | None, list[Part]]]:
    """By the name of each group (None: it has none), sorted; `by` is a key of `GROUPS`."""
    return _grouped(connection, GROUPS[by], since, until)


def _grouped(
    connection: Connection, expression: str, since: float | None, until: float | None
) -> list[tuple[str | None, list[Part]]]:
    found = rows(
        connection,
        f"SELECT {expression} AS name, runs.cost_source AS source, count(*) AS n, coalesce(sum(runs.cost), 0) AS cost,"  # noqa: S608 (an expression of this module)
        " coalesce(sum(runs.charged), 0) AS charged FROM runs JOIN itineraries ON itineraries.id = runs.itinerary"
        " WHERE runs.cost_source IS NOT NULL AND runs.ended_at >= ? AND runs.ended_at < ?"
        " GROUP BY 1, 2 ORDER BY 1, 2",
        (0.0 if since is None else since, 1e18 if until is None else until),
    )
    groups: dict[str | None, list[Part]] = {}
    for one in found:
        part = Part(source=CostSource(one["source"]), runs=one["n"], cost=int(one["cost"]), charged=int(one["charged"]))
        groups.setdefault(one["name"], []).append(part)
    return list(groups.items())
