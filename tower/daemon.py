"""The composition root: puts the parts together, brings them up in order, and takes them down again.

The order at a start: environment read, log, configuration, state folder and its lock, store, open runs settled, socket
bound, ready. Whatever was interrupted on the way is found by the next start; there is no other shutdown than that.
"""

from __future__ import annotations

import os
import secrets
import signal
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

import anyio
from anyio.abc import TaskGroup

from tower import __version__
from tower.config.load import load
from tower.config.problems import Problem
from tower.config.rehearsal import rehearsal_runner, rehearse
from tower.control import Control
from tower.core import failpoint
from tower.core.errors import BusyError, TowerError
from tower.core.factory import Factory, OnStop
from tower.core.records import Event, Run
from tower.engine import dispatcher, ground_stop, holds, places, recover, stopping
from tower.engine.bus import Bus
from tower.engine.compose import hash_of
from tower.engine.presence import keep_seen
from tower.engine.reload import Configuration
from tower.engine.tower import Tower, log
from tower.store import events, generations, runs
from tower.store.database import Store
from tower.system import logs, prctl, service
from tower.system.keeping import start_keeper
from tower.system.listener import listen, raise_descriptor_limit
from tower.system.lock import StateLock, lock_state
from tower.system.logs import Redaction
from tower.system.sdnotify import ServiceManager
from tower.system.statedir import StateDir, prepare
from tower.system.watch import changes
from tower.web.access import Access
from tower.web.app import create_app
from tower.web.server import serve as serve_web

GUARD_SEC: Final = 5.0
"""How often it is looked whether the state folder is still there."""


EXTEND_SEC: Final = 10.0
"""How often the service manager is asked for more time while a start takes long."""


class ConfigurationError(TowerError):
    """The configuration has errors; `problems` lists them all, with the warnings."""

    def __init__(self, path: Path, problems: tuple[Problem, ...]) -> None:
        super().__init__(
            "configuration", f"cannot serve {path}: it has errors", "mend them; `tower validate` lists them"
        )
        self.problems = problems


def serve(config: Path, *, runner: str | None = None) -> None:
    """Be the tower of one configuration file until told to stop.

    `runner` is a spec that replaces every agent's runner, for a rehearsal of the whole factory.
    Raises `ConfigurationError`, `BusyError` (another tower serves this state folder), and `TowerError` for whatever
    else keeps it from starting.
    """
    environ = dict(os.environ)
    umask = os.umask(0o077)
    loaded = load(config, environ=environ)
    if loaded.factory is None:
        raise ConfigurationError(config, loaded.problems)
    rehearsal = rehearsal_runner(runner, Path.cwd()) if runner else None
    prctl.make_undumpable()
    prctl.become_subreaper()
    descriptors = raise_descriptor_limit()
    redaction = Redaction()
    outlet = logs.configure(sys.stderr, logs.choose_form(sys.stderr, environ), redaction)
    try:
        _arm_failpoints(environ)
        state = prepare(Path(loaded.factory.settings.state_dir))
        with lock_state(state.root) as lock:
            daemon = _Daemon(
                environ=environ,
                umask=umask,
                descriptors=descriptors,
                redaction=redaction,
                state=state,
                lock=lock,
                configuration=Configuration(config, rehearsal=rehearsal, watched=loaded.watched),
                factory=rehearse(loaded.factory, rehearsal) if rehearsal else loaded.factory,
                warnings=tuple(str(problem) for problem in loaded.problems),
            )
            anyio.run(daemon.run)
    except ExceptionGroup as group:
        raise _cause_of(group) from group
    finally:
        outlet.drain()


def _cause_of(group: ExceptionGroup[Exception]) -> Exception:
    """The one error that a person should read, if the group is about one; else the group."""
    told, _ = group.split(TowerError)
    while told is not None:
        first = told.exceptions[0]
        if not isinstance(first, ExceptionGroup):
            return first
        told = first
    return group


def _arm_failpoints(environ: Mapping[str, str]) -> None:
    """`TOWER_FAILPOINTS=name=kill,...`: end, or stop, this very process at a named place. For crash tests alone."""
    for item in filter(None, environ.get("TOWER_FAILPOINTS", "").split(",")):
        name, _, action = item.partition("=")
        if name not in failpoint.KEEPER_NAMES:
            number = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}[action]
            failpoint.arm(name, partial(os.kill, os.getpid(), number))


def _keeper_failpoints(environ: Mapping[str, str]) -> dict[str, str]:
    items = (item.partition("=") for item in environ.get("TOWER_FAILPOINTS", "").split(",") if item)
    return {name: action for name, _, action in items if name in failpoint.KEEPER_NAMES}


@dataclass(slots=True, kw_only=True)
class _Daemon:
    """What is there before the event loop is."""

    environ: Mapping[str, str]
    umask: int
    descriptors: int
    redaction: Redaction
    state: StateDir
    lock: StateLock
    configuration: Configuration
    factory: Factory
    warnings: tuple[str, ...]

    async def run(self) -> None:
        """Come up, serve until a signal says stop, go down."""
        manager = ServiceManager.from_variables(self.environ, os.getpid())
        store = Store(self.state.database)
        try:
            async with anyio.create_task_group() as group:
                tower = await self._tower(store, group)
                await self._settle_what_was_left(tower, manager)
                async with self._open_door(tower):
                    await self._work(tower, manager)
                group.cancel_scope.cancel()
        finally:
            store.close()

    async def _settle_what_was_left(self, tower: Tower, manager: ServiceManager) -> None:
        """Nothing is dispatched before this is done; the service manager is asked for as much time as it takes."""

        async def ask_for_time() -> None:
            while True:
                manager.extend_timeout(2 * EXTEND_SEC)
                await anyio.sleep(EXTEND_SEC)

        manager.status("settling what an earlier tower left")
        await ground_stop.look(tower)
        async with anyio.create_task_group() as group:
            group.start_soon(ask_for_time)
            await recover.settle_open(tower)
            group.cancel_scope.cancel()
        await holds.release(tower, *holds.BY_CONFIGURATION)

    async def _tower(self, store: Store, group: TaskGroup) -> Tower:
        now = time.time()
        bus = Bus()
        store.on_commit(bus.publish)
        bus.on_event(lambda event: log.info(event.type, **_shown(event)))
        number = await store.write(
            partial(generations.record, digest=self.factory.digest, path=self.factory.path, at=now)
        )
        tower = Tower(
            store=store,
            state=self.state,
            bus=bus,
            clock=time.time,
            chance=secrets.token_bytes,
            environ=self.environ,
            umask=self.umask,
            descriptors=self.descriptors,
            redaction=self.redaction,
            start_keeper=start_keeper,
            factory=replace(self.factory, generation=number),
            tasks=group,
            started_at=now,
            loaded_at=now,
            python=sys.executable,
            failpoints=_keeper_failpoints(self.environ),
            warnings=self.warnings,
        )
        await store.write(lambda connection: events.append(connection, tower.event("tower.started", pid=os.getpid())))
        return tower

    @asynccontextmanager
    async def _open_door(self, tower: Tower) -> AsyncIterator[None]:
        """The control socket and the application behind it."""
        settings = tower.factory.settings
        control = Control.over(tower, partial(self.configuration.look, tower))
        access = Access(
            socket_group=settings.socket_group,
            keeper_sockets=str(self.state.keepers),
            run_of_token=partial(_run_of_token, tower),
        )
        listener = listen(Path(settings.socket), self.lock, group=settings.socket_group)
        try:
            self.state.socket_path_file.write_text(f"{listener.path}\n")
            app = create_app(control, access, max_body_bytes=lambda: tower.factory.settings.max_body_bytes)
            async with serve_web(app, [listener.socket]):
                yield
        finally:
            listener.close()

    async def _work(self, tower: Tower, manager: ServiceManager) -> None:
        """Dispatch until told to stop, then go down as `on_stop` says."""
        beat = manager.watchdog_seconds / 2 if manager.watchdog_seconds else dispatcher.PATIENCE_SEC
        async with anyio.create_task_group() as group:
            group.start_soon(
                partial(dispatcher.dispatch, tower, alive=lambda: _sign_of_life(tower, manager), every=beat)
            )
            group.start_soon(ground_stop.watch, tower)
            group.start_soon(holds.watch, tower)
            group.start_soon(keep_seen, tower)
            group.start_soon(places.sweep, tower)
            group.start_soon(self._follow_configuration, tower)
            group.start_soon(self._guard_state)
            manager.ready(_truth(tower))
            log.info("tower.ready", version=__version__, socket=tower.factory.settings.socket)
            await self._until_told(tower, manager)
            group.cancel_scope.cancel()

    async def _guard_state(self) -> None:
        """End when the state folder is not the locked one any more: another tower could serve what lies there now."""
        while True:
            await anyio.sleep(GUARD_SEC)
            if not self.lock.covers(self.state.root):
                raise TowerError(
                    "state-gone",
                    f"cannot go on: the state folder {self.state.root} was moved or removed",
                    "move it back before the next start; its runs go on with their keepers",
                )

    async def _follow_configuration(self, tower: Tower) -> None:
        def report(words: str | None) -> None:
            tower.watch_problem = words
            log.warning("config.watch", words=words or "watching again")

        async for _ in changes(lambda: self.configuration.watched, report=report):
            try:
                await self.configuration.look(tower)
            except BusyError as error:
                log.error("config.failed", error=str(error))

    async def _until_told(self, tower: Tower, manager: ServiceManager) -> None:
        """Return when the tower may go: after a signal, and what `on_stop` makes of it; after a second one at once."""
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as received:
            async with anyio.create_task_group() as group:
                told = False
                async for number in received:
                    if number == signal.SIGHUP:
                        group.start_soon(self._reload, tower, manager)
                    elif told:
                        log.warning("tower.stopping-at-once", live=len(tower.live))
                        group.cancel_scope.cancel()
                        return
                    else:
                        told = True
                        group.start_soon(self._go_down, tower, manager, group.cancel_scope)

    async def _reload(self, tower: Tower, manager: ServiceManager) -> None:
        manager.reloading()
        await self.configuration.look(tower)
        manager.ready(_truth(tower))

    async def _go_down(self, tower: Tower, manager: ServiceManager, done: anyio.CancelScope) -> None:
        manager.stopping()
        tower.stopping = True
        leave = tower.factory.settings.on_stop is OnStop.LEAVE
        if leave and "INVOCATION_ID" in self.environ:
            # Under systemd the same signal means a restart, which leaves, or a stop, which stops.
            leave = await service.is_restart(self.environ)
        log.info("tower.stopping", live=len(tower.live), leaves=leave)
        if not leave:
            await stopping.stop_all(tower)
        event = tower.event("tower.stopped", left=len(tower.live))
        await tower.store.write(lambda connection: events.append(connection, event))
        done.cancel()


def _shown(event: Event) -> dict[str, object]:
    """An event as keys of a log line."""
    named = {
        "seq": event.seq,
        "itinerary": event.itinerary,
        "flight": event.flight,
        "run": event.run,
        "agent": event.agent,
    }
    return {key: value for key, value in (named | dict(event.data)).items() if value is not None}


def _truth(tower: Tower) -> str:
    """One line for the service manager."""
    parts = [f"{len(tower.live)} running", f"generation {tower.factory.generation}"]
    if tower.ground_stop:
        parts.insert(0, f"GROUND STOP {tower.ground_stop.words()}")
    if tower.problems:
        parts.insert(0, f"the last edit has {len(tower.problems)} problems, generation before it stays")
    if tower.draining:
        parts.insert(0, "draining")
    return ", ".join(parts)


def _sign_of_life(tower: Tower, manager: ServiceManager) -> None:
    manager.watchdog()
    manager.status(_truth(tower))


async def _run_of_token(tower: Tower, token: str) -> Run | None:
    """The open run that a token was minted for."""
    return await tower.store.read(lambda connection: runs.by_token(connection, hash_of(token)))
