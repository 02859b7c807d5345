"""What is gathered of an interrupted run; what cannot be had is left out, and the next run starts all the same."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from trees import User, write

from tower.core.errors import TowerError
from tower.core.factory import Access
from tower.engine import handing_over

from .scripted import Scene, agent, later

pytestmark = pytest.mark.anyio

CODER, READER = agent("coder"), agent("reader", access=Access.READ_ONLY)


@pytest.fixture
def user(scene: Scene) -> User:
    """Somebody who made the scene's tree a repository."""
    user = User(scene.tree.parent / "home")
    write(scene.tree, {"a.txt": "one\n"})
    user.git(scene.tree, "init", "-q")
    user.commit(scene.tree, "first")
    return user


async def handover(scene: Scene, flight: str) -> str:
    """What the next run of a flight is told after its keeper vanished."""
    await (await scene.keeper(flight)).vanishes()
    await later(60)
    told = ((await scene.keeper(flight)).folder / "payload.md").read_text()
    return told.partition("## Tower: handover")[2]


async def test_a_writer_is_told_what_stands_committed_and_what_does_not(scene: Scene, user: User) -> None:
    async with scene.tower(CODER):
        flight = await scene.send("coder")
        write(scene.tree, {"b.txt": "two\n"})
        user.commit(scene.tree, "half of the work")
        write(scene.tree, {"c.txt": "three\n"})
        Path(os.fsdecode(os.fsencode(scene.tree) + b"/caf\xe9.txt")).write_text("latin-1\n")
        told = await handover(scene, flight)
        assert "half of the work" in told
        assert "first" not in told.partition("half of the work")[2].splitlines()[0]
        assert "c.txt" in told
        assert "caf" in told
        assert "b.txt" not in told


async def test_of_many_files_some_are_named_and_the_rest_is_counted(scene: Scene, user: User) -> None:
    async with scene.tower(CODER):
        flight = await scene.send("coder")
        write(scene.tree, {f"file-{number:03}.txt": "" for number in range(100)})
        told = await handover(scene, flight)
        assert ("file-039.txt" in told, "file-040.txt" in told) == (True, False)
        assert "And 60 more." in told


async def test_the_tree_that_it_worked_in_is_looked_at_wherever_its_agent_works_now(scene: Scene, user: User) -> None:
    async with scene.tower(CODER):
        flight = await scene.send("coder")
        keeper = await scene.keeper(flight)
    write(scene.tree, {"left-behind.txt": "x\n"})
    elsewhere = scene.tree.parent / "elsewhere"
    elsewhere.mkdir()
    await keeper.vanishes()
    async with scene.tower(agent("coder", work_dir=str(elsewhere))):
        await later(60)
        assert "left-behind.txt" in ((await scene.keeper(flight)).folder / "payload.md").read_text()


async def test_a_reader_is_told_that_its_snapshot_is_a_new_one(scene: Scene, user: User) -> None:
    async with scene.tower(READER):
        told = await handover(scene, await scene.send("reader"))
        assert "snapshot" in told
        assert "a.txt" not in told


async def test_a_tree_and_a_log_that_cannot_be_read_are_left_out(scene: Scene) -> None:
    def no_tree(*_: object) -> None:
        raise TowerError("git-failed", "cannot look")

    def no_log(*_: object) -> None:
        raise OSError(5, "Input/output error")

    scene.patch.setattr(handing_over, "changes_since", no_tree)
    async with scene.tower(CODER):
        flight = await scene.send("coder")
        await (await scene.keeper(flight)).prints("last words\n")
        scene.patch.setattr(handing_over, "read_log", no_log)
        told = await handover(scene, flight)
        assert "You continue work that was interrupted." in told
        assert "last words" not in told


async def test_with_nothing_recorded_the_note_says_so(scene: Scene) -> None:
    async with scene.tower(CODER):
        told = await handover(scene, await scene.send("coder"))
        assert "Nothing that it did was recorded" in told
