"""Going down: every run is asked to end, and how it ended is on disk before the tower goes."""

from __future__ import annotations

import pytest

from tower.core.states import Cause, Interruption
from tower.engine import stopping

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
