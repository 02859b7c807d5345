"""What the tests of the verbs share: the verbs over a scene's tower, and waiting for an answer that is held back."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Generic, TypeVar

import anyio
from engine.scripted import Scene, idle

from tower.control import Control
from tower.engine.reload import Compared, Reloaded

T = TypeVar("T")


def verbs(scene: Scene, looked: Reloaded | None = None, compared: Compared | None = None) -> Control:
    """All verbs; a look at the configuration, and a comparison with it, find what is given."""

    async def look() -> Reloaded:
        await anyio.lowlevel.checkpoint()
        return looked or Reloaded()

    async def compare() -> Compared:
        await anyio.lowlevel.checkpoint()
        return compared or Compared()

    return Control.over(scene.now, look, compare)


class Answer(Generic[T]):
    """An answer that may be held back: asked for in a task, and looked at."""

    def __init__(self, scene: Scene, asked: Awaitable[T]) -> None:
        self.given: T | None = None
        self.at: float | None = None
        scene.now.tasks.start_soon(self._wait, asked)

    async def _wait(self, asked: Awaitable[T]) -> None:
        self.given = await asked
        self.at = anyio.current_time()


async def ask(scene: Scene, asked: Awaitable[Any]) -> Answer[Any]:
    """Ask, and return when the answer is there or held back."""
    answer: Answer[Any] = Answer(scene, asked)
    await idle()
    return answer
