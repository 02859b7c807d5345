"""Starts that came to nothing: seeing to it that a program never runs, and settling what was claimed for it.

No attempt is used up, for nothing was done. A run that had started, or may have, is settled by `settle`.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.to_thread

from tower.core.errors import BusyError, TowerError
from tower.core.outcome import is_passing
from tower.core.states import FlightState, HeldReason, Outcome, RunState
from tower.engine import circuits, joins, money
from tower.engine.settle import settle
from tower.engine.tower import RETRY_SEC, LiveRun, Tower, log
from tower.store import events, flights, itineraries, runs
from tower.store.database import Connection
from tower.system.keeping import KeeperLostError, KeeperVoidError, StartFailedError
from tower.system.runrecords import read_exit, read_start, remove_drafts, void_start

PAUSE_SEC: Final = 5.0
"""Before a start that failed through no fault of the flight is tried again."""

PLACE_SEC: Final = 60.0
"""Before it is looked again whether the place to work is back."""

NO_PLACE: Final = frozenset({"work-dir", "repository", "git-missing"})
"""Codes of errors that say there is no place to work: a folder moved away, a repository broken, git not installed."""

PASSING: Final = (BusyError, StartFailedError, KeeperLostError, KeeperVoidError)
"""What says nothing about the flight: no space, no process to be had, a keeper that ended before it could begin."""


async def settle_failed_start(tower: Tower, live: LiveRun, error: TowerError) -> None:
    """Whoever makes `start` decides: if no keeper has, none ever will, and nothing was done.

    The same holds where a keeper has, and says on record that the machine had no room for the program just then.
    """
    folder = tower.state.run_folder(live.run.agent, live.run.id)
    if await forbid(folder):
        await settle_unstarted(tower, live, error)
    elif want := want_of(folder):
        await settle_unstarted(tower, live, want)
    else:
        await settle(tower, live)


def want_of(folder: Path) -> BusyError | None:
    """What the machine lacked when a keeper was to start the program of a run; None when it was anything else.

    That is neither the program's fault nor a wall of its provider: nobody else who uses the runner has to wait.
    """
    record = read_exit(folder)
    words = record.start_error if record is not None else None
    if words is None or not is_passing(words):
        return None
    return BusyError("no-room", f"the machine had no room for it: {words}", "it is tried again")


async def forbid(folder: Path) -> bool:
    """See to it that no keeper starts the run in `folder` any more; False when one has, or may have.

    A disk that refuses the record delays the decision.
    """
    while folder.exists():
        try:
            if await anyio.to_thread.run_sync(void_start, str(folder)):
                return True
            start = read_start(folder)
            return start is not None and start.void
        except OSError as error:
            log.error("start.undecided", folder=str(folder), error=str(error))
            await anyio.sleep(RETRY_SEC)
    # Without the folder no keeper can make `start` in it.
    return True


async def settle_unstarted(tower: Tower, live: LiveRun, error: TowerError | None) -> None:
    """Settle a run whose program provably never ran.

    A passing want queues the flight again as it was; without a place to work it is held; any other error ends it in one
    sentence. Without an error somebody asked it to end before it began, or the tower went, or a resident's process.
    """
    remove_drafts(tower.state.run_folder(live.run.agent, live.run.id))
    now = tower.clock()
    reason = _reason(live, error)
    outcome, state, changes = _consequence(live, error, now)

    def transaction(connection: Connection) -> None:
        # A turn counts as started before it is told.
        began = {"started_at": None} if live.run.turn is not None else {}
        ended = {"state": RunState.ENDED, "ended_at": now, "outcome": outcome, "reason": reason}
        runs.update(connection, live.run.id, **ended, **began)
        if live.run.turn is None:
            runs.update_process(connection, live.run.process, ended_at=now)
        itineraries.uncount_run(connection, live.run.itinerary)
        money.settle(tower, connection, live.run, 0)
        circuits.ended(tower, connection, live.run, outcome)
        told = partial(
            tower.event, itinerary=live.run.itinerary, run=live.run.id, agent=live.run.agent, outcome=outcome
        )
        first = next(iter(live.run.flights), None)
        events.append(connection, told("run.not-started", flight=first, reason=reason))
        for flight in reversed(live.run.flights):  # the first one would take the others along, untold
            moved = flights.move(connection, flight, state, reason=reason, **changes)
            if moved and state is not FlightState.QUEUED:
                events.append(connection, told(f"flight.{state}", flight=flight, words=reason))
        joins.look(tower, connection, live.run.itinerary)

    await tower.persist(transaction)
    tower.free(live)


def _reason(live: LiveRun, error: TowerError | None) -> str:
    if error is not None:
        return str(error)
    if live.stopping is not None:
        return f"it was asked to end before it began ({live.stopping})"
    if live.run.turn is not None:
        return "its agent's process was no longer there to be told"
    return "the tower went away before it began"


def _consequence(live: LiveRun, error: TowerError | None, now: float) -> tuple[Outcome, FlightState, dict[str, Any]]:
    """How the run is recorded, and where its flights go with which changes."""
    if live.stopping == "cancelled":
        return Outcome.CANCELLED, FlightState.CANCELLED, {"outcome": Outcome.CANCELLED, "ended_at": now}
    if error is not None and error.code in NO_PLACE:
        held = {"held_reason": HeldReason.ENVIRONMENT, "release_at": now + PLACE_SEC}
        return Outcome.REFUSED, FlightState.HELD, held
    if error is None or isinstance(error, PASSING):
        # A ground stop or a drain finds it queued and holds it there.
        return Outcome.REFUSED, FlightState.QUEUED, {"not_before": now + (PAUSE_SEC if error else 0.0)}
    return Outcome.FAILED, FlightState.LANDED, {"outcome": Outcome.FAILED, "ended_at": now}
