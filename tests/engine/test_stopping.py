"""Going down: every run is asked to end, and how it ended is on disk before the tower goes."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from tower.core.errors import BusyError
from tower.core.states import Cause, Interruption
from tower.engine import drain, stopping
from tower.system import standing_order

from .scripted import Scene, agent, idle, later

pytestmark = pytest.mark.anyio


async def test_all_runs_are_asked_and_the_tower_waits_for_the_last(scene: Scene) -> None:
    gone = []

    async with scene.tower(agent("coder")) as tower:
        quick, slow = await scene.send("coder"), await scene.send("coder")
        keeper = await scene.keeper(slow)
        keeper.is_deaf = True

        async def go_down() -> None:
            await stopping.stop_all(tower)
            gone.append(True)

        tower.tasks.start_soon(go_down)
        await later(600)
        assert (await scene.flight(quick)).state == "queued"
        assert not gone
        await keeper.exits(signal=9, stopping="stop")
        assert gone
        for flight in (quick, slow):
            run, after = await scene.run(flight), await scene.flight(flight)
            assert run.interruption == Interruption.TOWER_RESTART
            assert (after.state, after.attempt, after.cause) == ("queued", 2, Cause.RECOVERY)
        scene.assert_free()


async def test_nothing_starts_while_the_tower_goes_down_and_what_waits_is_the_next_ones(scene: Scene) -> None:
    async with scene.tower(agent("coder")) as tower:
        await stopping.stop_all(tower)
        flight = await scene.send("coder")
        await later(600)
        assert (await scene.flight(flight)).state == "queued"
    async with scene.tower(agent("coder")):
        assert (await scene.flight(flight)).state == "running"


async def test_a_drain_by_hand_is_seen_within_a_second_survives_a_restart_and_ends_with_its_file(scene: Scene) -> None:
    watched: dict[str, Any] = {"also": [drain.watch]}
    async with scene.tower(agent("coder"), **watched) as tower:
        runs = await scene.send("coder")
        scene.state.drain.touch()
        await later(1)
        assert tower.draining
        waits = await scene.send("coder")
        assert [(await scene.flight(one)).state for one in (runs, waits)] == ["running", "queued"]
        (told,) = [event for event in await scene.events() if event.type == "tower.draining"]
        assert "by" in told.data
    async with scene.tower(agent("coder"), is_dispatching=False, **watched) as tower:
        await drain.look(tower)
        await scene.dispatch()
        await (await scene.keeper(runs)).exits(0)
        await later(100)
        assert (await scene.flight(waits)).state == "queued"
        scene.state.drain.unlink()
        await later(1)
        assert not tower.draining
        assert (await scene.flight(waits)).state == "running"


async def test_a_drain_that_cannot_be_written_down_is_refused(scene: Scene) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    async with scene.tower(agent("coder")) as tower:
        scene.patch.setattr(standing_order, "write_private", full)
        scene.patch.setattr(Path, "touch", full)
        with pytest.raises(BusyError, match=r"cannot drain: .*No space left"):
            await drain.begin(tower, by="ann")
        assert not tower.draining


async def test_draining_lets_runs_end_and_starts_nothing(scene: Scene) -> None:
    async with scene.tower(agent("coder")) as tower:
        runs = await scene.send("coder")
        tower.draining = True
        waits = await scene.send("coder")
        await (await scene.keeper(runs)).exits(0)
        with_nothing_left = []

        async def wait() -> None:
            await stopping.until_gone(tower)
            with_nothing_left.append(True)

        tower.tasks.start_soon(wait)
        await idle()
        assert with_nothing_left
        assert (await scene.flight(waits)).state == "queued"
        tower.draining = False
        tower.wake()
        await idle()
        assert (await scene.flight(waits)).state == "running"
