"""Money set aside and money spent: what a run is expected to cost, and whether Fuel and Reserve have room for it.

Pure sums over what the store knows, in micro-dollars. What a run did cost is `pricing`'s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Final

from tower.core.factory import Agent, Settings

HISTORY: Final = 20
"""So many of an agent's last priced runs tell what the next one costs."""

PERCENTILE: Final = 90
"""The share of them, in percent, that cost no more than what is set aside."""

MARKS: Final = (80, 100)
"""Percent of the Reserve at which a person is told."""

SLACK: Final = 10
"""Points below a mark at which it may be told again: what is set aside comes and goes with every run."""


def estimate(agent: Agent, settings: Settings, history: Sequence[int]) -> int:
    """What to set aside for a run of `agent`; `history` is what its last runs cost, at most `HISTORY` of them."""
    if agent.reserve is not None:
        return agent.reserve
    if not history:
        return settings.reserve
    rank = -(-len(history) * PERCENTILE // 100)
    return sorted(history)[rank - 1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The factory's spending in the rolling window of the Reserve, which ends now."""

    spent: int = 0
    """By runs that ended in it."""
    reserved: int = 0
    """For runs that are alive."""
    leaves: Sequence[tuple[float, int]] = ()
    """What leaves it at which moment (seconds since the epoch), the soonest first; may be left out while there is
    room."""

    @property
    def total(self) -> int:
        return self.spent + self.reserved

    def frees_at(self, limit: int, wanted: int) -> float | None:
        """When so much of it has left that `wanted` more fits; None if that cannot be told from what is spent."""
        excess = self.total + wanted - limit
        for at, amount in self.leaves:
            if excess <= 0:
                break
            excess -= amount
            if excess <= 0:
                return at
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Books:
    """What admission knows of money: what a run of each agent is expected to cost, and the window."""

    estimates: Mapping[str, int] = field(default_factory=dict)
    window: Window = Window()


def marks(limit: int, total: int, told: Set[int], *, bites: bool) -> frozenset[int]:
    """The marks of the Reserve that hold, of which `told` have held before; none without a limit.

    While flights wait for the Reserve (`bites`) all hold: it is used up, as far as they are concerned.
    """
    if limit == 0:
        return frozenset()
    return frozenset(mark for mark in MARKS if bites or total * 100 >= (mark - SLACK if mark in told else mark) * limit)
