"""The life of a daemon in its event loop: open runs settled, the socket bound, ready, work, and down again.

Whatever is interrupted on the way is found by the next start; there is no other shutdown than that.
"""

from __future__ import annotations

import os
import secrets
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack, asynccontextmanager, closing
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Final

import anyio
from anyio.abc import TaskGroup

from tower import __version__
from tower.control import Control
from tower.core.addresses import LOOPBACK, MCP_PATH
from tower.core.addresses import parse as parse_address
from tower.core.errors import BusyError, TowerError
from tower.core.factory import Factory, Settings
from tower.core.records import Event, Process, Run
from tower.daemon.crash_points import for_keepers
from tower.daemon.signals import tell_truth, truth, until_told
from tower.engine import (
    dispatcher,
    drain,
    ground_stop,
    holds,
    joins,
    meter,
    places,
    recover,
    residents,
    retention,
    worktrees,
)
from tower.engine.bus import Bus
from tower.engine.compose import hash_of
from tower.engine.notices import Notices
from tower.engine.presence import keep_seen
from tower.engine.reload import Configuration
from tower.engine.tower import Tower, log
from tower.mcp.door import Door
from tower.store import events, generations, runs
from tower.store.database import Connection, Store
from tower.store.residents import by_token
from tower.system import cgroups
from tower.system.ballast import Ballast
from tower.system.keeping import start_keeper
from tower.system.listener import listen
from tower.system.lock import StateLock
from tower.system.logs import Redaction
from tower.system.nursery import Nursery
from tower.system.sandbox import abilities
from tower.system.sdnotify import ServiceManager
from tower.system.statedir import DOOR, StateDir
from tower.system.tcp import Port, listen_at
from tower.system.watch import changes
from tower.web.access import Access
from tower.web.app import create_app
from tower.web.gate import OverTcp
from tower.web.server import serve as serve_web

GUARD_SEC: Final = 5.0
"""How often it is looked whether the state folder is still there."""


EXTEND_SEC: Final = 10.0
"""How often the service manager is asked for more time while a start takes long."""


@dataclass(slots=True, kw_only=True)
class Life:
    """What is there before the event loop is, and `run`."""

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
            with Nursery() as nursery:
                async with anyio.create_task_group() as group:
                    tower = await self._tower(store, group, nursery)
                    await self._settle_what_was_left(tower, manager)
                    async with self._open_door(tower):
                        await self._work(tower, manager)
                    group.cancel_scope.cancel()
        finally:
            await store.close()

    async def _settle_what_was_left(self, tower: Tower, manager: ServiceManager) -> None:
        """Nothing is dispatched before this is done; the service manager is asked for as much time as it takes."""

        async def ask_for_time() -> None:
            while True:
                manager.extend_timeout(2 * EXTEND_SEC)
                await anyio.sleep(EXTEND_SEC)

        manager.status("settling what an earlier tower left")
        async with anyio.create_task_group() as group:
            group.start_soon(ask_for_time)
            await recover.settle_open(tower)
            # After that, so that a ground stop ends the runs found alive as well; and before residents are looked
            # after, who see it themselves and must not start a process in spite of it.
            await ground_stop.look(tower)
            await drain.look(tower)
            await residents.adopt_open(tower)
            group.cancel_scope.cancel()
        await holds.release(tower, *holds.BY_CONFIGURATION)
        await joins.look_at_all(tower)

    async def _tower(self, store: Store, group: TaskGroup, nursery: Nursery) -> Tower:
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
            cgroup=cgroups.delegated(),
            redaction=self.redaction,
            ballast=self._take_ballast(),
            start_keeper=partial(start_keeper, spawn=nursery.spawn),
            factory=replace(self.factory, generation=number),
            tasks=group,
            started_at=now,
            loaded_at=now,
            python=sys.executable,
            abilities=cache(partial(abilities, self.environ.get("PATH", os.defpath), str(self.state.root))),
            failpoints=for_keepers(self.environ),
            warnings=self.warnings,
        )
        await store.write(lambda connection: events.append(connection, tower.event("tower.started", pid=os.getpid())))
        return tower

    def _take_ballast(self) -> Ballast:
        ballast = Ballast(self.state.ballast)
        if not ballast.take():
            log.warning("ballast.no-room", folder=str(self.state.root))
        return ballast

    @asynccontextmanager
    async def _open_door(self, tower: Tower) -> AsyncIterator[None]:
        """The control socket and the application behind it."""
        settings = tower.factory.settings
        control = Control.over(
            tower, partial(self.configuration.look, tower), partial(self.configuration.compare, tower)
        )
        access = Access(
            socket_group=settings.socket_group,
            keeper_sockets=str(self.state.keepers),
            agent_of_token=partial(_agent_of_token, tower),
        )
        with ExitStack() as listening, self._listen_at(settings) as port:
            listener = listen(Path(settings.socket), self.lock, group=settings.socket_group)
            listening.callback(listener.close)
            for_runs = listen(self.state.door / DOOR, self.lock)
            listening.callback(for_runs.close)
            self.state.socket_path_file.write_text(f"{listener.path}\n")
            tower.mcp_url = port.address.url(MCP_PATH)
            door = Door(control, tower.tools_wanted)
            app = create_app(
                control,
                access,
                max_body_bytes=lambda: tower.factory.settings.max_body_bytes,
                over_tcp=partial(_over_tcp, tower, port.address.host, serves_api=settings.http_addr != ""),
                door=door,
            )
            async with anyio.create_task_group() as group:
                group.start_soon(door.keep)
                async with serve_web(app, [listener.socket, port.socket], for_runs=[for_runs.socket]):
                    yield
                group.cancel_scope.cancel()

    def _listen_at(self, settings: Settings) -> closing[Port]:
        """The TCP port: of the API if it is wanted, of the door for agents in any case."""
        port = listen_at(parse_address(settings.http_addr or f"{LOOPBACK}:0"), self.state.http_port)
        if port.lost is not None:
            log.warning("http.moved", lost=port.lost, address=str(port.address))
        return closing(port)

    async def _work(self, tower: Tower, manager: ServiceManager) -> None:
        """Dispatch until told to stop, then go down as `on_stop` says."""
        beat = manager.watchdog_seconds / 2 if manager.watchdog_seconds else dispatcher.PATIENCE_SEC
        notices = Notices(tower)
        tower.bus.on_event(notices.hear)
        async with anyio.create_task_group() as group:
            group.start_soon(partial(dispatcher.dispatch, tower, alive=lambda: _sign_of_life(manager), every=beat))
            group.start_soon(tell_truth, tower, manager)
            group.start_soon(ground_stop.watch, tower)
            group.start_soon(drain.watch, tower)
            group.start_soon(holds.watch, tower)
            group.start_soon(keep_seen, tower)
            group.start_soon(meter.watch, tower)
            group.start_soon(residents.keep, tower)
            group.start_soon(notices.tell)
            group.start_soon(places.sweep, tower)
            group.start_soon(retention.keep, tower)
            group.start_soon(worktrees.keep, tower)
            group.start_soon(self._follow_configuration, tower)
            group.start_soon(self._guard_state)
            manager.ready(truth(tower))
            log.info("tower.ready", version=__version__, socket=tower.factory.settings.socket, mcp=tower.mcp_url)
            await until_told(tower, manager, self.configuration)
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
            await self._look_until_it_is_known(tower)

    async def _look_until_it_is_known(self, tower: Tower) -> None:
        """A full disk delays an edit; it is not lost."""
        while True:
            try:
                await self.configuration.look(tower)
                return
            except BusyError as error:
                log.error("config.failed", error=str(error))
                await anyio.sleep(GUARD_SEC)


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


def _sign_of_life(manager: ServiceManager) -> None:
    manager.watchdog()


async def _agent_of_token(tower: Tower, token: str) -> Run | Process | None:
    """The open run that a token was minted for, the turn under way of a resident, or its process between two.

    It is looked for by its hash. What the time of that may tell is about the hash, and nothing about any token.
    """
    sha256 = hash_of(token)

    def read(connection: Connection) -> Run | Process | None:
        return runs.by_token(connection, sha256) or by_token(connection, sha256)

    return await tower.store.read(read)


def _over_tcp(tower: Tower, host: str, *, serves_api: bool) -> OverTcp:
    """The address that is listened at may be asked for: no name server can give it to somebody else."""
    return OverTcp(hosts=frozenset({host, *tower.factory.settings.public_hosts}), serves_api=serves_api)
