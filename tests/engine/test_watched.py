"""Readers that no sandbox holds: whether the live tree is what it was is looked at when they end, whatever restarts."""

from __future__ import annotations

import pytest
from trees import User, write

from tower.core.factory import Access
from tower.core.records import Run

from .scripted import Scene, agent, later

pytestmark = pytest.mark.anyio

READER = agent("reader", access=Access.READ_ONLY)
CODER = agent("coder")


@pytest.fixture(autouse=True)
def repository(scene: Scene) -> None:
    user = User(scene.tree.parent / "home")
    write(scene.tree, {"a.txt": "one\n"})
    user.git(scene.tree, "init", "-q")
    user.commit(scene.tree, "first")


def found(run: Run) -> list[str]:
    return [note for note in run.notes if "changed while this run worked" in note]


@pytest.mark.parametrize("restarts", [False, True], ids=["one tower", "a restart meanwhile"])
async def test_a_change_that_no_writer_made_is_said(scene: Scene, restarts: bool) -> None:
    async with scene.tower(READER):
        flight = await scene.send("reader")
        keeper = await scene.keeper(flight)
        if not restarts:
            write(scene.tree, {"a.txt": "two\n"})
            await keeper.exits(0)
    if restarts:
        write(scene.tree, {"a.txt": "two\n"})
        await keeper.exits(0)
    # The file may name another tree by now.
    async with scene.tower(agent("reader", access=Access.READ_ONLY, work_dir="/nowhere")):
        (note,) = found(await scene.run(flight))
        assert str(scene.tree) in note


async def test_nothing_is_said_when_nothing_changed(scene: Scene) -> None:
    async with scene.tower(READER):
        flight = await scene.send("reader")
        keeper = await scene.keeper(flight)
    await keeper.exits(0)
    async with scene.tower(READER):
        assert found(await scene.run(flight)) == []


@pytest.mark.parametrize("ends", ["before the reader", "before a restart", "never"])
async def test_what_a_writer_may_have_changed_is_not_laid_to_a_reader(scene: Scene, ends: str) -> None:
    async with scene.tower(READER, CODER):
        flight = await scene.send("reader")
        reader, writer = await scene.keeper(flight), await scene.keeper(await scene.send("coder"))
        await later(1)
        write(scene.tree, {"a.txt": "two\n"})
        if ends != "never":
            await writer.exits(0)
        if ends == "before the reader":
            await reader.exits(0)
    if ends != "before the reader":
        await reader.exits(0)
    async with scene.tower(READER, CODER):
        assert found(await scene.run(flight)) == []


async def test_a_writer_of_long_ago_explains_nothing(scene: Scene) -> None:
    async with scene.tower(READER, CODER):
        await (await scene.keeper(await scene.send("coder"))).exits(0)
        await later(60)
        flight = await scene.send("reader")
        write(scene.tree, {"a.txt": "two\n"})
        await (await scene.keeper(flight)).exits(0)
        assert len(found(await scene.run(flight))) == 1


async def test_a_tree_that_is_gone_is_said(scene: Scene) -> None:
    async with scene.tower(READER):
        flight = await scene.send("reader")
        scene.tree.rename(scene.tree.with_name("aside"))
        await (await scene.keeper(flight)).exits(0)
        assert any("cannot be seen whether this run changed" in note for note in (await scene.run(flight)).notes)
