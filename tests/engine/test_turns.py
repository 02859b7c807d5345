"""Turns that an earlier tower left, of processes that are gone: what was told is judged, what was not is told anew."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from tower.core.ids import PROCESS, RUN
from tower.core.records import RESIDENT_PROCESS, Process, Run
from tower.core.states import Cause, FlightState, RunState
from tower.engine import recover, resident_output
from tower.engine.tower import OpenTurn, Tower
from tower.engine.turns import see_turn_through
from tower.store import flights, itineraries, runs
from tower.store.database import Connection
from tower.system.turnfiles import make_turns, write_turn

from .scripted import Scene, agent

pytestmark = pytest.mark.anyio

STAYS = agent("stays")


async def left_open(tower: Tower, flight: str, state: RunState, folder: Path) -> OpenTurn:
    """A turn, and the process that is gone, as the records of an earlier tower have them."""
    now, process = tower.clock(), tower.new_id(PROCESS)

    def claim(connection: Connection) -> Run:
        found = flights.get(connection, flight)
        assert found is not None
        run = Run(
            id=tower.new_id(RUN),
            agent="stays",
            runner=STAYS.runner,
            generation=1,
            itinerary=found.itinerary,
            process=process,
            state=state,
            attempt=1,
            cause=Cause.DISPATCH,
            number=1,
            queued_at=now,
            claimed_at=now,
            started_at=now if state is RunState.RUNNING else None,
            flights=(flight,),
            turn=1,
            out_from=0 if state is RunState.RUNNING else None,
        )
        record = Process(id=process, agent="stays", folder=str(folder), created_at=now, kind=RESIDENT_PROCESS, turns=1)
        runs.insert_process(connection, record)
        runs.insert(connection, run)
        itineraries.count_run(connection, found.itinerary)
        flights.move(connection, flight, FlightState.STARTING)
        if state is RunState.RUNNING:
            flights.move(connection, flight, FlightState.RUNNING)
        return run

    live = recover.live_of(tower, await tower.store.write(claim))
    tower.live[live.run.id] = live
    return OpenTurn(live=live, number=1, is_asked=True, is_refused=True, is_cut_off=True, was_alive=False)


@pytest.mark.parametrize(
    ("state", "is_there", "is_told", "attempt"),
    [
        (RunState.STARTING, False, False, 1),
        (RunState.STARTING, True, False, 1),
        (RunState.RUNNING, True, False, 1),
        (RunState.RUNNING, True, True, 2),
        (RunState.RUNNING, False, True, 2),
    ],
    ids=["not made", "not recorded", "not told", "told", "the folder is gone"],
)
async def test_only_what_may_have_been_told_uses_up_an_attempt(
    scene: Scene, state: RunState, is_there: bool, is_told: bool, attempt: int
) -> None:
    async with scene.tower(STAYS, is_dispatching=False) as tower:
        flight = await scene.send("stays")
        turn = await left_open(tower, flight, state, Path("/nowhere"))
        folder = tower.state.run_folder("stays", turn.live.run.process)
        if is_there:
            folder.mkdir(parents=True)
            make_turns(folder)
            write_turn(folder, 1, b"{}\n")
        if is_there and is_told:
            (folder / "turns" / "1").rename(folder / "turns" / "1.told")
        await see_turn_through(tower, None, turn)
        queued = await scene.flight(flight)
        assert (queued.state, queued.attempt) == (FlightState.QUEUED, attempt)
        assert (await scene.itinerary(flight)).runs_started == attempt - 1
        assert ((await scene.run(flight)).started_at is not None) == is_told
        assert (await scene.process(flight)).ended_at is None
        assert tower.live == {}


async def test_a_log_that_the_disk_does_not_give_back_holds_nothing_and_delays_nothing(scene: Scene) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    async with scene.tower(STAYS, is_dispatching=False) as tower:
        flight = await scene.send("stays")
        turn = await left_open(tower, flight, RunState.RUNNING, Path("/nowhere"))
        folder = tower.state.run_folder("stays", turn.live.run.process)
        folder.mkdir(parents=True)
        make_turns(folder)
        (folder / "turns" / "1.told").touch()
        scene.patch.setattr(resident_output, "read_log", fail)
        await see_turn_through(tower, None, turn)
        assert (await scene.flight(flight)).attempt == 2
        assert (await scene.run(flight)).interruption == "tower_restart"
