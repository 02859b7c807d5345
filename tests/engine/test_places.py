"""Where readers work: a snapshot of their own, which is gone when they are, whatever happens on the way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from trees import User, write

from tower.core.errors import BusyError
from tower.core.factory import Access
from tower.core.records import RESIDENT_PROCESS, Process
from tower.core.residence import Residence
from tower.core.states import Outcome
from tower.engine import conduct, places, recover, trees
from tower.engine.tower import Resident

from .scripted import Scene, agent, idle, in_place, later

pytestmark = pytest.mark.anyio

READER = agent("reader", access=Access.READ_ONLY)


@pytest.fixture(autouse=True)
def repository(scene: Scene) -> None:
    user = User(scene.tree.parent / "home")
    write(scene.tree, {"a.txt": "one\n"})
    user.git(scene.tree, "init", "-q")
    user.commit(scene.tree, "first")


async def test_a_reader_works_in_a_snapshot_that_is_gone_when_it_has_ended(scene: Scene) -> None:
    async with scene.tower(READER):
        flight = await scene.send("reader")
        run, keeper = await scene.run(flight), await scene.keeper(flight)
        assert (run.workspace_kind, run.workspace) == ("snapshot", f"{scene.state.snapshots}/{run.id}/tree")
        assert keeper.plan.cwd == run.workspace
        assert (Path(keeper.plan.cwd) / "a.txt").read_text() == "one\n"
        assert run.base_commit is not None
        await keeper.exits(0)
        scene.assert_free()


async def test_an_edit_of_where_snapshots_lie_leaves_none_behind(scene: Scene) -> None:
    async with scene.tower(READER) as tower:
        flight = await scene.send("reader")
        tower.factory = scene.factory(READER, snapshots_dir="/nowhere")
        await (await scene.keeper(flight)).exits(0)
        scene.assert_free()


@pytest.mark.parametrize("ended", [False, True], ids=["adopted", "ended"])
async def test_a_restart_that_puts_snapshots_elsewhere_leaves_none_behind(scene: Scene, ended: bool) -> None:
    async with scene.tower(READER):
        flight = await scene.send("reader")
        keeper = await scene.keeper(flight)
    if ended:
        await keeper.exits(0)
    async with scene.tower(READER, snapshots_dir=str(scene.tree.parent / "elsewhere")):
        await keeper.exits(0)
        assert (await scene.flight(flight)).outcome == Outcome.SUCCEEDED
        scene.assert_free()


async def test_a_defect_on_the_way_leaves_none_behind(scene: Scene) -> None:
    async def defect(*_: object, **__: object) -> None:
        await anyio.lowlevel.checkpoint()
        raise RuntimeError("a defect")

    async with scene.tower(READER):
        flight = await scene.send("reader")
        with scene.patch.context() as patch:
            patch.setattr(conduct, "settle", defect)
            await (await scene.keeper(flight)).exits(0)
        await later(recover.DEFECT_SEC + 1)
        assert (await scene.flight(flight)).outcome == Outcome.SUCCEEDED
        scene.assert_free()


async def test_a_reader_of_a_subfolder_works_there_and_leaves_no_snapshot_behind(scene: Scene) -> None:
    write(scene.tree, {"below/b.txt": "two\n"})
    below = agent("reader", access=Access.READ_ONLY, work_dir=str(scene.tree / "below"))
    async with scene.tower(below):
        keeper = await scene.keeper(await scene.send("reader"))
        assert keeper.plan.cwd.endswith("/tree/below")
    await keeper.exits(0)
    async with scene.tower(below):
        await idle()
        scene.assert_free()


async def test_a_sweep_takes_strays_and_spares_what_is_in_use_and_what_comes_into_use_meanwhile(scene: Scene) -> None:
    async with scene.tower(READER) as tower:
        flights = [await scene.send("reader")]
        stray = scene.state.snapshots / "run_of_a_crash"
        stray.mkdir()

        async def claim_first(*sweep: Any) -> Any:
            scene.patch.setattr(anyio.to_thread, "run_sync", in_place)
            flights.append(await scene.send("reader"))
            return await in_place(*sweep)

        scene.patch.setattr(anyio.to_thread, "run_sync", claim_first)
        await places.sweep(tower)
        assert not stray.exists()
        assert [Path((await scene.run(flight)).workspace or "/nowhere").is_dir() for flight in flights] == [True, True]


async def test_a_sweep_spares_what_residents_have(scene: Scene) -> None:
    process = Process(id="prc_alive", agent="stays", folder="/nowhere", created_at=0.0, kind=RESIDENT_PROCESS)
    resident = Resident(name="stays", residence=Residence(), process=process)
    async with scene.tower(READER, is_dispatching=False) as tower:
        tower.residents["stays"] = resident
        kept, stray = (places.resident_folder(tower.factory, name) for name in ("stays", "gone"))
        sockets = [tower.state.keepers / name for name in ("alive", "dead")]
        for folder in (kept, stray):
            folder.mkdir()
        for socket in sockets:
            socket.touch()
        await places.sweep(tower)
        assert (kept.exists(), stray.exists()) == (True, False)
        assert [socket.exists() for socket in sockets] == [True, False]


async def test_a_snapshot_that_cannot_be_removed_ends_nobody(scene: Scene) -> None:
    async with scene.tower(READER):
        flight = await scene.send("reader")
        scene.patch.setattr(places, "remove_workspace", lambda folder: f"cannot remove {folder}")
        await (await scene.keeper(flight)).exits(0)
        assert (await scene.flight(flight)).outcome == Outcome.SUCCEEDED
        assert scene.now.live == {}


@pytest.mark.parametrize("left", [False, True], ids=["nothing in it", "something in it"])
async def test_the_scratch_of_a_run_that_ended_without_a_tower_is_removed(scene: Scene, left: bool) -> None:
    async with scene.tower(agent("coder")):
        flight = await scene.send("coder")
        keeper = await scene.keeper(flight)
    if left:
        (keeper.folder / "tmp" / "deep").mkdir()
    await keeper.exits(0)
    async with scene.tower(agent("coder")):
        assert (await scene.flight(flight)).state == "landed"
        await later(1)
        assert not [path.name for path in keeper.folder.iterdir() if "tmp" in path.name]


async def test_what_an_interrupted_writer_left_is_kept_before_the_next_one_starts(scene: Scene) -> None:
    user = User(scene.tree.parent / "home")
    async with scene.tower(agent("coder")):
        flight = await scene.send("coder")
        first, keeper = await scene.run(flight), await scene.keeper(flight)
        write(scene.tree, {"a.txt": "200 uncommitted lines\n"})
        await keeper.exits(None, signal=9)
        await later(recover.DEFECT_SEC)
        second = await scene.run(flight)
        assert second.id != first.id
        write(scene.tree, {"a.txt": "spoilt by the second\n"})
        (note,) = [note for note in second.notes if "is kept" in note]
        assert f"refs/tower/rescue/{first.id}" in note
        user.git(scene.tree, "restore", f"--source=refs/tower/rescue/{first.id}", "--worktree", ":/")
        assert (scene.tree / "a.txt").read_text() == "200 uncommitted lines\n"


async def test_a_recovery_in_a_clean_tree_keeps_nothing(scene: Scene) -> None:
    """B087: where nothing was changed, recovering makes no commit."""
    async with scene.tower(agent("coder")):
        flight = await scene.send("coder")
        await (await scene.keeper(flight)).exits(None, signal=9)
        await later(recover.DEFECT_SEC)
        assert (await scene.run(flight)).attempt == 2
        assert not (scene.tree / ".git/refs/tower").exists()


async def test_what_cannot_be_kept_for_a_time_delays_the_recovery(scene: Scene) -> None:
    async with scene.tower(agent("coder")):
        flight = await scene.send("coder")
        write(scene.tree, {"a.txt": "two\n"})
        with scene.patch.context() as patch:
            patch.setattr(trees, "rescue", busy)
            await (await scene.keeper(flight)).exits(None, signal=9)
            await later(recover.DEFECT_SEC)
            assert (await scene.flight(flight)).reason == "cannot keep what is not committed: the disk is full"
        await later(60)
        assert any("is kept" in note for note in (await scene.run(flight)).notes)


def busy(*_: object, **__: object) -> None:
    raise BusyError("rescue", "cannot keep what is not committed: the disk is full")
