"""Following the configuration: a good edit becomes a new generation, a bad one changes nothing and is reported.

Started runs keep the agent that they began with; queued flights meet the new generation when they start.
Reading and judging the file is left to `config`, seeing that it changed to `system.watch`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread

from tower.config.changes import RESTART, diff, needs_restart
from tower.config.load import Loaded, load
from tower.config.problems import Problem
from tower.config.rehearsal import rehearse
from tower.core.consequences import Consequence, consequences
from tower.core.factory import Factory, Runner, Settings
from tower.engine import holds, joins
from tower.engine.tower import Tower, log
from tower.store import events, generations
from tower.store.database import Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class Reloaded:
    """What a look at the configuration led to."""

    changes: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    needs_restart: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """What a look at the configuration would lead to."""

    changes: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    needs_restart: tuple[str, ...] = ()
    consequences: tuple[Consequence, ...] = ()
    """For every agent; empty when the file has errors, since then nothing changes."""


class Configuration:
    """The file that the tower follows. One look at a time; the last good generation stays live."""

    def __init__(self, path: Path, *, rehearsal: Runner | None, watched: frozenset[Path]) -> None:
        """`rehearsal` is a runner that replaces every agent's."""
        self.path = path
        self.watched = watched
        self._rehearsal = rehearsal
        self._lock = anyio.Lock()

    async def look(self, tower: Tower) -> Reloaded:
        """Read the file and go over to it if it is good. Raises `BusyError` when that could not be written down."""
        async with self._lock:
            loaded = await self._read(tower)
            self.watched |= loaded.watched
            if loaded.factory is None:
                return await self._keep_the_last(tower, loaded)
            self.watched = loaded.watched
            return await self._go_over(tower, loaded.factory, loaded.problems)

    async def compare(self, tower: Tower) -> Compared:
        """Read the file and say what `look` would change; nothing is."""
        loaded = await self._read(tower)
        if loaded.factory is None:
            return Compared(problems=loaded.problems)
        before = tower.factory
        after = before if loaded.factory.digest == before.digest else loaded.factory
        return Compared(
            changes=diff(before, after),
            problems=loaded.problems,
            needs_restart=needs_restart(before, loaded.factory),
            consequences=consequences(before, after),
        )

    async def _read(self, tower: Tower) -> Loaded:
        read = partial(load, self.path, environ=tower.environ)
        loaded: Loaded = await anyio.to_thread.run_sync(read)
        if loaded.factory is None or self._rehearsal is None:
            return loaded
        return replace(loaded, factory=rehearse(loaded.factory, self._rehearsal))

    async def _keep_the_last(self, tower: Tower, loaded: Loaded) -> Reloaded:
        if loaded.problems != tower.problems:
            tower.problems = loaded.problems
            for problem in loaded.problems:
                log.warning("config.problem", problem=str(problem))
            bad = tower.event("config.refused", problems=[str(problem) for problem in loaded.problems])
            await tower.store.write(lambda connection: events.append(connection, bad))
        return Reloaded(problems=loaded.problems)

    async def _go_over(self, tower: Tower, factory: Factory, problems: tuple[Problem, ...]) -> Reloaded:
        before = tower.factory
        tower.problems = ()
        tower.warnings = tuple(str(problem) for problem in problems)
        waiting = needs_restart(before, factory)
        tower.needs_restart = waiting
        if factory.digest == before.digest:
            return Reloaded(problems=problems, needs_restart=waiting)
        changes = diff(before, factory)
        at = tower.clock()

        def transaction(connection: Connection) -> int:
            number = generations.record(connection, digest=factory.digest, path=factory.path, at=at)
            events.append(connection, tower.event("config.loaded", generation=number, changes=list(changes)))
            return number

        number = await tower.store.write(transaction)
        tower.factory = replace(factory, generation=number, settings=_kept(before, factory))
        tower.loaded_at = at
        await holds.after_reload(tower)
        await joins.look_at_all(tower)
        tower.wake()
        return Reloaded(changes=changes, problems=problems, needs_restart=waiting)


def _kept(before: Factory, after: Factory) -> Settings:
    """The new settings, with those that cannot change while running as they were."""
    return replace(after.settings, **{key: getattr(before.settings, key) for key in RESTART})
