"""Floor 3: the verbs. The one door for people, agents and clocks, where rights are checked.

Grouped by what they act on; `web` translates requests into these calls and does nothing else.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tower.control.factory import FactoryVerbs
from tower.control.flights import FlightVerbs
from tower.control.help import HelpVerbs
from tower.control.itineraries import ItineraryVerbs
from tower.control.money import MoneyVerbs
from tower.control.notes import NoteVerbs
from tower.control.own import OwnVerbs
from tower.control.runs import RunVerbs
from tower.control.worktrees import WorktreeVerbs
from tower.engine.reload import Compared, Reloaded
from tower.engine.tower import Tower


@dataclass(frozen=True, slots=True)
class Control:
    """All verbs over one tower."""

    factory: FactoryVerbs
    flights: FlightVerbs
    itineraries: ItineraryVerbs
    runs: RunVerbs
    help: HelpVerbs
    own: OwnVerbs
    notes: NoteVerbs
    worktrees: WorktreeVerbs
    money: MoneyVerbs

    @classmethod
    def over(
        cls,
        tower: Tower,
        look_at_configuration: Callable[[], Awaitable[Reloaded]],
        compare_configuration: Callable[[], Awaitable[Compared]],
    ) -> Control:
        """The verbs that act on `tower`."""
        return cls(
            FactoryVerbs(tower, look_at_configuration, compare_configuration),
            FlightVerbs(tower),
            ItineraryVerbs(tower),
            RunVerbs(tower),
            HelpVerbs(tower),
            OwnVerbs(tower),
            NoteVerbs(tower),
            WorktreeVerbs(tower),
            MoneyVerbs(tower),
        )
