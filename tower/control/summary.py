"""The verb for the morning: what happened since a time, and what waits for a person."""

from __future__ import annotations

from typing import Final

from tower.control import views
from tower.control.money import costs_within
from tower.control.rights import require_person
from tower.control.runs import views_of
from tower.core.callers import Caller
from tower.core.states import HeldReason, Outcome
from tower.engine.tower import Tower
from tower.store import accounts, circuits, flights, runs
from tower.store.database import Connection

SHOWN: Final = 50
"""Runs and flights of a kind that are shown: a screen."""

WELL: Final = frozenset({Outcome.SUCCEEDED, Outcome.CANCELLED, Outcome.STEERED, Outcome.REFUSED})
"""How runs end that nobody has to look into."""

BY_ITSELF: Final = frozenset({HeldReason.QUOTA, HeldReason.RESERVE, HeldReason.GROUND_STOP})
"""Holds that are released without a person, or are told of otherwise."""


async def summary(tower: Tower, caller: Caller, since: float) -> views.View:
    """How runs ended since then (seconds since the epoch), what they cost and changed, and what waits."""
    require_person(caller, "show a summary")
    stop = tower.ground_stop

    def read(connection: Connection) -> views.View:
        now = tower.clock()
        ended = runs.ended_since(connection, since)
        troubles = [run for run in ended if run.outcome not in WELL]
        changed = [run for run in ended if run.tree_after is not None and run.tree_after != run.tree_before]
        waiting = [flight for flight in flights.held(connection) if flight.held_reason not in BY_ITSELF]
        outcomes = [run.outcome for run in ended if run.outcome is not None]
        return {
            "since": views.moment(since),
            "outcomes": {str(outcome): outcomes.count(outcome) for outcome in Outcome if outcome in outcomes},
            "alive": len(runs.open_runs(connection)),
            "costs": costs_within(tower, connection, since, None),
            "troubles": views_of(connection, troubles[:SHOWN], now),
            "changed": views_of(connection, changed[:SHOWN], now),
            "waiting": [views.flight(flight) for flight in waiting[:SHOWN]],
            "help": accounts.count_open(connection),
            "circuits": [views.circuit(one, now) for one in circuits.every(connection).values()],
            "ground_stop": stop.words() if stop else None,
        }

    return await tower.store.read(read)
