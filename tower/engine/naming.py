"""Naming live trees, once for all who ask at the same time: a name that was begun after a question answers it.

How a tree is named is left to `system.treestore`; who asks, and what for, to `trees`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import anyio
import anyio.to_thread

from tower.core.errors import TowerError
from tower.system.treestore import Named, name_tree


@dataclass(slots=True, eq=False)
class _Round:
    """One naming that is still to begin, and all who wait for it."""

    over: anyio.Event = field(default_factory=anyio.Event)
    answer: Named | TowerError | None = None
    """None when whoever was to ask was cancelled."""


@dataclass(slots=True, eq=False)
class Naming:
    """The namings of one tower: of each tree one at a time, with one round of questions waiting for the next."""

    store: str
    exclude: tuple[str, ...]
    _next: dict[str, _Round] = field(default_factory=dict)
    _locks: dict[str, anyio.Lock] = field(default_factory=dict)

    async def name(self, path: str) -> Named:
        """What the repository around `path` holds at a moment after this call. Raises what `name_tree` does."""
        while True:
            joined = self._next.get(path)
            if joined is None:
                return await self._lead(path)
            await joined.over.wait()
            match joined.answer:
                case Named():
                    return joined.answer
                case TowerError() as error:
                    raise type(error)(error.code, error.sentence, error.hint)
                case None:
                    continue

    async def _lead(self, path: str) -> Named:
        mine = self._next[path] = _Round()
        try:
            async with self._locks.setdefault(path, anyio.Lock()):
                # Who asks from now on wants a later moment than this one.
                self._next.pop(path, None)
                mine.answer = await anyio.to_thread.run_sync(partial(name_tree, path, self.store, exclude=self.exclude))
                return mine.answer
        except TowerError as error:
            mine.answer = error
            raise
        finally:
            if self._next.get(path) is mine:
                del self._next[path]
            mine.over.set()
