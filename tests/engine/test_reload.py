"""Following the configuration: a good edit goes live, a bad one changes nothing, both are told."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tower.config.load import load
from tower.core.errors import BusyError
from tower.core.factory import Runner
from tower.core.states import HeldReason, Outcome
from tower.engine.reload import Configuration
from tower.engine.tower import Tower

from .scripted import Scene, idle

pytestmark = pytest.mark.anyio

LAYOVER = '[layover]\nstate_dir = "state"\nwork_dir = "tree"\nmin_free_mb = 1\n[defaults]\nwriters = "shared"\n'
CODER = '[agents.coder]\ndescription = "codes"\nrunner = "cmd:true"\nprompt = "Code."\nentry = true\n'
TESTER = CODER.replace("coder", "tester")


@asynccontextmanager
async def followed(
    scene: Scene, text: str, rehearsal: Runner | None = None
) -> AsyncIterator[tuple[Tower, Configuration]]:
    """A tower that was started with this file."""
    path = edit(scene, text)
    loaded = load(path, environ={})
    assert loaded.factory is not None
    async with scene.tower() as tower:
        tower.factory = loaded.factory
        yield tower, Configuration(path, rehearsal=rehearsal, watched=loaded.watched)


def edit(scene: Scene, text: str) -> Path:
    path = scene.state.root.parent / "layover.toml"
    path.write_text(text)
    return path


async def test_a_good_edit_goes_live_as_a_new_generation_and_says_what_changed(scene: Scene) -> None:
    async with followed(scene, LAYOVER + CODER) as (tower, configuration):
        started = await scene.send("coder")
        edit(scene, LAYOVER + CODER.replace("Code.", "Code well.") + TESTER)
        done = await configuration.look(tower)
        assert done.changes == ("agents.coder: instructions changed", "agents.tester: added")
        assert not [problem for problem in done.problems if problem.is_error]
        assert done.needs_restart == ()
        assert tower.factory.generation == 2
        assert (await scene.run(started)).generation == 0
        assert (await scene.run(await scene.send("tester"))).generation == 2
        (event,) = [event for event in await scene.events() if event.type == "config.loaded"]
        assert event.data == {"generation": 2, "changes": list(done.changes)}


async def test_a_look_at_an_unchanged_file_changes_nothing(scene: Scene) -> None:
    async with followed(scene, LAYOVER + CODER) as (tower, configuration):
        before = tower.factory
        done = await configuration.look(tower)
        assert (done.changes, tower.factory) == ((), before)
        assert await scene.events() == []


async def test_a_bad_edit_leaves_the_last_generation_live_and_is_told_once(scene: Scene) -> None:
    async with followed(scene, LAYOVER + CODER) as (tower, configuration):
        before = tower.factory
        edit(scene, LAYOVER + CODER + "colour = 3\n")
        for _ in range(2):
            done = await configuration.look(tower)
            assert done.problems == tower.problems
            assert "colour" in str(done.problems[0])
        assert tower.factory is before
        assert [event.type for event in await scene.events()] == ["config.refused"]
        assert (await scene.flight(await scene.send("coder"))).state == "running"
        edit(scene, LAYOVER + CODER)
        assert (await configuration.look(tower)).problems == ()
        assert tower.problems == ()


async def test_a_file_that_is_gone_is_a_bad_edit(scene: Scene) -> None:
    async with followed(scene, LAYOVER + CODER) as (tower, configuration):
        configuration.path.unlink()
        assert (await configuration.look(tower)).problems
        assert tower.factory.agents.keys() == {"coder"}


async def test_what_takes_a_restart_keeps_its_value_and_is_named_until_the_edit_is_undone(scene: Scene) -> None:
    async with followed(scene, LAYOVER + CODER) as (tower, configuration):
        before = tower.factory.settings
        edit(scene, LAYOVER.replace('"state"', '"elsewhere"').replace("min_free_mb = 1", "min_free_mb = 2") + CODER)
        for _ in range(2):
            done = await configuration.look(tower)
            assert done.needs_restart == tower.needs_restart
            assert "layover.state_dir" in done.needs_restart
            after = tower.factory.settings
            assert (after.state_dir, after.socket, after.snapshots_dir) == (
                before.state_dir,
                before.socket,
                before.snapshots_dir,
            )
            assert after.min_free_bytes == 2 << 20
        edit(scene, LAYOVER + CODER)
        assert (await configuration.look(tower)).needs_restart == ()
        assert tower.needs_restart == ()


async def test_a_removed_agent_holds_its_flights_until_it_is_back_and_lets_its_runs_end(scene: Scene) -> None:
    async with followed(scene, LAYOVER + CODER + TESTER + "max_concurrent = 1\n") as (tower, configuration):
        runs, waits = await scene.send("tester"), await scene.send("tester")
        edit(scene, LAYOVER + CODER)
        await configuration.look(tower)
        await idle()
        assert (await scene.flight(waits)).held_reason == HeldReason.AGENT
        await (await scene.keeper(runs)).exits(0)
        assert (await scene.flight(runs)).outcome == Outcome.SUCCEEDED
        edit(scene, LAYOVER + CODER + TESTER)
        await configuration.look(tower)
        await idle()
        assert (await scene.flight(waits)).state == "running"


async def test_an_edit_that_cannot_be_written_down_is_not_live(scene: Scene) -> None:
    async with followed(scene, LAYOVER + CODER) as (tower, configuration):
        before = tower.factory
        edit(scene, LAYOVER + CODER + TESTER)
        with scene.full_disk(), pytest.raises(BusyError):
            await configuration.look(tower)
        assert tower.factory is before
        assert (await configuration.look(tower)).changes == ("agents.tester: added",)


async def test_a_rehearsal_goes_on_through_edits(scene: Scene) -> None:
    robot = Runner(name="cmd:echo", kind="cmd", command=("echo rehearsed",))
    async with followed(scene, LAYOVER + CODER, robot) as (tower, configuration):
        edit(scene, LAYOVER + CODER + TESTER)
        await configuration.look(tower)
        keeper = await scene.keeper(await scene.send("tester"))
        assert keeper.plan.argv[-1] == "echo rehearsed"


async def test_folders_that_a_bad_edit_names_are_watched_until_a_good_one_comes(scene: Scene) -> None:
    async with followed(scene, LAYOVER + CODER) as (tower, configuration):
        before = configuration.watched
        texts = scene.state.root.parent / "texts"
        texts.mkdir()
        bad = LAYOVER + CODER.replace('prompt = "Code."', 'prompt = "x"\nprompt_file = "texts/code.md"')
        edit(scene, bad)
        await configuration.look(tower)
        assert tower.problems
        assert configuration.watched >= before
        edit(scene, LAYOVER + CODER)
        await configuration.look(tower)
        assert configuration.watched == before


async def test_a_comparison_says_what_a_look_would_change_and_changes_nothing(scene: Scene) -> None:
    async with followed(scene, LAYOVER + CODER + TESTER) as (tower, configuration):
        before = tower.factory
        edit(scene, LAYOVER.replace('state"', 'elsewhere"') + CODER.replace("Code.", "Code well."))
        found = await configuration.compare(tower)
        assert found.changes[-2:] == ("agents.coder: instructions changed", "agents.tester: removed")
        assert "layover.state_dir" in found.needs_restart
        assert [(it.agent, it.change) for it in found.consequences] == [("coder", "changed"), ("tester", "removed")]
        assert tower.factory is before
        assert not [event for event in await scene.events() if event.type.startswith("config.")]


async def test_a_comparison_with_a_bad_file_has_its_problems_and_no_consequences(scene: Scene) -> None:
    async with followed(scene, LAYOVER + CODER) as (tower, configuration):
        edit(scene, LAYOVER + CODER + "timeout = 3\n")
        found = await configuration.compare(tower)
        assert [it.key for it in found.problems] == ["agents.coder.timeout"]
        assert (found.changes, found.consequences, tower.problems) == ((), (), ())


async def test_a_comparison_under_a_rehearsal_sees_its_runner_alone(scene: Scene) -> None:
    robot = Runner(name="cmd:echo", kind="cmd", command=("echo rehearsed",))
    async with followed(scene, LAYOVER + CODER, robot) as (tower, configuration):
        edit(scene, LAYOVER + CODER.replace("Code.", "Code well."))
        await configuration.look(tower)
        edit(scene, LAYOVER + CODER.replace("cmd:true", "cmd:exit 3"))
        found = await configuration.compare(tower)
        assert [change for change in found.changes if change.startswith("agents.")] == [
            "agents.coder: instructions changed"
        ]
