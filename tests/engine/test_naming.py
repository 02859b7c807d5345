"""Naming a tree once for all who ask at the same time."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from tower.core.errors import BusyError
from tower.engine.naming import Naming
from tower.system.repository import Head
from tower.system.treestore import Named

pytestmark = pytest.mark.anyio


class Slow:
    """Namings that take a second each and are counted."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.begun = 0
        self.error: BusyError | None = None
        patch.setattr(anyio.to_thread, "run_sync", self.run)

    async def run(self, *_: Any) -> Named:
        self.begun += 1
        tree = str(self.begun)
        await anyio.sleep(1)
        if self.error is not None:
            raise self.error
        return Named(tree=tree, head=Head())


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Slow:
    return Slow(monkeypatch)


async def ask(trees: Naming, told: list[str], after: float = 0.0) -> None:
    await anyio.sleep(after)
    told.append((await trees.name("/t")).tree)


async def test_a_question_is_answered_by_a_naming_that_began_after_it_and_shared(slow: Slow) -> None:
    trees, told = Naming("/s", ()), list[str]()
    async with anyio.create_task_group() as group:
        group.start_soon(ask, trees, told)
        for _ in range(30):
            group.start_soon(ask, trees, told, 0.5)
    assert told == ["1"] + ["2"] * 30


async def test_a_failure_is_everybody_s_and_the_next_one_asks_anew(slow: Slow) -> None:
    trees = Naming("/s", ())
    slow.error = BusyError("tree-moving", "cannot name it")
    failures = []

    async def fails() -> None:
        with pytest.raises(BusyError) as caught:
            await trees.name("/t")
        failures.append(caught.value)

    async with anyio.create_task_group() as group:
        for _ in range(4):
            group.start_soon(fails)
    assert [error.code for error in failures] == ["tree-moving"] * 4
    slow.error = None
    assert (await trees.name("/t")).tree == str(slow.begun)


async def test_who_waits_for_one_that_was_cancelled_asks_itself(slow: Slow) -> None:
    trees, told = Naming("/s", ()), list[str]()
    async with anyio.create_task_group() as group:
        group.start_soon(ask, trees, told)

        async def gives_up() -> None:
            await anyio.sleep(0.1)
            with anyio.move_on_after(0.2):
                await trees.name("/t")

        group.start_soon(gives_up)
        group.start_soon(ask, trees, told, 0.2)
    assert told == ["1", "2"]
    assert trees._next == {}
