"""Holds that end by themselves: when a time comes, when space is back, when a credential appears."""

from __future__ import annotations

import pytest

from tower.core.states import HeldReason
from tower.engine import holds
from tower.engine.holds import LOOK_SEC

from .scripted import Scene, agent, later

pytestmark = pytest.mark.anyio


async def test_space_that_comes_back_releases(scene: Scene) -> None:
    async with scene.tower(agent("coder"), also=[holds.watch], min_free_bytes=100):
        scene.free = 99
        flight = await scene.send("coder")
        await later(60)
        assert (await scene.flight(flight)).held_reason == HeldReason.DISK
        scene.free = 100
        await later(LOOK_SEC)
        assert (await scene.flight(flight)).state == "running"
        assert await scene.story(flight) == [
            "flight.queued",
            "flight.held",
            "flight.released",
            "run.claimed",
            "run.started",
        ]


async def test_where_free_space_cannot_be_told_nothing_is_held_for_it(scene: Scene) -> None:
    def unknown(_: object) -> int:
        raise OSError(5, "Input/output error")

    async with scene.tower(agent("coder"), also=[holds.watch]):
        scene.free = 0
        flight = await scene.send("coder")
        scene.patch.setattr("tower.engine.tower.free_bytes", unknown)
        await later(LOOK_SEC)
        assert (await scene.flight(flight)).state == "running"


async def test_a_credential_file_that_appears_releases(scene: Scene) -> None:
    folder = scene.tree / "credentials"
    folder.mkdir()
    needs = agent("coder", env_from={"API_KEY": "agents.coder.env_from"})
    async with scene.tower(needs, also=[holds.watch], environ={"CREDENTIALS_DIRECTORY": str(folder)}):
        flight = await scene.send("coder")
        await later(60)
        assert (await scene.flight(flight)).held_reason == HeldReason.ENVIRONMENT
        (folder / "API_KEY").write_text("s3cr3t")
        await later(LOOK_SEC)
        assert (await scene.flight(flight)).state == "running"


async def test_a_work_tree_that_is_back_releases(scene: Scene) -> None:
    away = scene.tree.with_name("away")
    scene.tree.rename(away)
    async with scene.tower(agent("coder"), also=[holds.watch]):
        flight = await scene.send("coder")
        await later(60)
        assert (await scene.flight(flight)).held_reason == HeldReason.ENVIRONMENT
        assert scene.keepers.plans == []
        away.rename(scene.tree)
        await later(LOOK_SEC)
        assert (await scene.flight(flight)).state == "running"


async def test_a_hold_for_a_variable_outlives_the_removal_of_its_agent(scene: Scene) -> None:
    needs = agent("coder", env_from={"API_KEY": "agents.coder.env_from"})
    async with scene.tower(needs, also=[holds.watch]) as tower:
        flight = await scene.send("coder")
        tower.factory = scene.factory()
        await later(60)
        assert (await scene.flight(flight)).held_reason == HeldReason.ENVIRONMENT


async def test_only_what_is_held_for_the_given_reasons_is_released_and_counted(scene: Scene) -> None:
    async with scene.tower(agent("coder"), agent("thinker", context_budget=1), min_free_bytes=100) as tower:
        scene.free = 0
        full = await scene.send("coder")
        scene.free = 100
        budget = [await scene.send("thinker") for _ in range(2)]
        assert await holds.release(tower, HeldReason.AGENT) == 0
        assert await holds.release(tower, *holds.BY_CONFIGURATION) == 2
        await later(1)
        assert (await scene.flight(full)).held_reason == HeldReason.DISK
        # They are decided anew, and nothing about them has changed.
        assert {(await scene.flight(flight)).held_reason for flight in budget} == {HeldReason.OVER_BUDGET}


async def test_a_full_disk_delays_a_release(scene: Scene) -> None:
    async with scene.tower(agent("coder"), also=[holds.watch]):
        scene.free = 0
        flight = await scene.send("coder")
        with scene.full_disk():
            scene.free = 1 << 40
            await later(60)
            assert (await scene.flight(flight)).state == "held"
        await later(LOOK_SEC)
        assert (await scene.flight(flight)).state == "running"


async def test_ballast_that_was_thrown_off_is_taken_on_again_when_there_is_room(scene: Scene) -> None:
    async with scene.tower(agent("coder"), also=[holds.watch]) as tower:
        tower.ballast.throw_off()
        await later(LOOK_SEC)
        assert not tower.ballast.is_thrown_off
        assert scene.state.ballast.stat().st_size > 0
