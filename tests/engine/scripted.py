"""A tower on a jumping clock, whose keepers do what the test says and nothing else.

Store, folders and records are real: a scripted keeper writes `start`, logs and `exit.json` as a real one does, and
stands behind a real process, so that the engine judges real evidence. What hops to threads runs in place: a jumping
clock outruns a thread. A test reads as the life of a tower:

    async with scene.tower(agent("coder")):
        flight = await scene.send("coder")
        await scene.keeper(flight).exits(0)
        assert (await scene.flight(flight)).outcome == "succeeded"

Leaving the block is `kill -9`: keepers live on, and the next block is the next tower on the same state folder.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import tempfile
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import anyio.lowlevel
import anyio.to_thread
import pytest
from trio.testing import MockClock

from tower.control import sending
from tower.core.callers import Caller
from tower.core.errors import BusyError, ConflictError
from tower.core.factory import Agent, Factory, Runner, Settings
from tower.core.ids import RANDOM_BYTES
from tower.core.launch import KEEPER_PROTOCOL, KeeperPlan
from tower.core.pipelines import Pipeline
from tower.core.prompts import Prompt
from tower.core.records import Event, Flight, Itinerary, Process, Run
from tower.core.routes import Route, RouteMode
from tower.engine import compose, dispatcher, recover
from tower.engine.bus import Bus
from tower.engine.tower import Tower
from tower.store import events, flights, generations, itineraries, runs
from tower.store.database import Store
from tower.system import procfs
from tower.system.ballast import Ballast
from tower.system.keeper.records import create_start, encode, exit_fields
from tower.system.keeperlink import Exited, Gone, Grew, Word
from tower.system.keeping import KeeperVoidError
from tower.system.logs import Redaction
from tower.system.runlog import log_size
from tower.system.statedir import prepare

EPOCH = 1_800_000_000.0
"""When a scene begins, by the tower's clock."""

IN_MEMORY = Path("/dev/shm")
"""Here nothing waits for a disk: that what is written is durable is not what these tests are about."""

NOBODY = 1 << 22
"""No process can have this pid: it is beyond what the kernel gives out."""

TRUE = Runner(name="cmd:true", kind="cmd", command=("true",))
ANN = Caller(name="ann")


MODES = {"->": RouteMode.ASYNC, "=>": RouteMode.SPAWN}
"""How a test writes the mode of a route."""


def now() -> float:
    """The tower's clock: it jumps with the event loop's."""
    return EPOCH + anyio.current_time()


def agent(name: str, **changes: Any) -> Agent:
    """An entry agent that runs `true`; it works in the scene's tree."""
    plain: dict[str, Any] = {"runner": TRUE.name, "work_dir": "", "entry": True}
    return Agent(name=name, **{"instructions": Prompt.of(f"Do as {name} does.")} | plain | changes)


def edge(text: str) -> Route:
    """The route that `a -> b`, or `a => b`, stands for."""
    sender, arrow, receiver = text.split()
    return Route(sender=sender, receiver=receiver, mode=MODES[arrow])


class Link:
    """A connection to a scripted keeper, as `tower.system.keeperlink.KeeperLink` is to a real one."""

    def __init__(self, keeper: ScriptedKeeper) -> None:
        self.keeper = keeper
        self.pid, self.ticks, self.protocol = keeper.pid, keeper.ticks, keeper.protocol
        self.agent_pid, self.agent_ticks = NOBODY, 1
        self.is_grouped = False
        self.is_closed = False
        self._words: deque[Word | None] = deque()
        self._news = anyio.Event()

    def say(self, word: Word | None) -> None:
        """None is the end of the connection."""
        self._words.append(word)
        self._news.set()

    def words(self) -> Link:
        return self

    def __aiter__(self) -> Link:
        return self

    async def __anext__(self) -> Word:
        while not self._words:
            self._news = anyio.Event()
            await self._news.wait()
        word = self._words.popleft()
        if word is None:
            raise StopAsyncIteration
        return word

    async def stop(self, word: str, grace: float) -> None:
        if self.protocol != KEEPER_PROTOCOL:
            raise ConflictError("keeper-protocol", "cannot ask anything of this keeper")
        self.keeper.hear(word, grace)

    async def poke(self) -> None:
        self.keeper.pokes += 1

    async def aclose(self) -> None:
        self.is_closed = True


class ScriptedKeeper:
    """A keeper whose program does what the test says; asked to stop, it obeys."""

    def __init__(self, plan: KeeperPlan, clock: Callable[[], float]) -> None:
        self.plan = plan
        self.folder = Path(plan.folder)
        self.protocol = KEEPER_PROTOCOL
        self.asked: list[str] = []
        self.pokes = 0
        self.is_deaf = False
        """It hears requests to stop, and its program goes on."""
        self.is_mute = False
        """It lives, and answers no tower that connects."""
        self._clock = clock
        self.links: list[Link] = []
        self._process = subprocess.Popen(["sleep", "600"])
        self.pid = self._process.pid
        self.ticks = procfs.start_ticks(self.pid) or 0

    @property
    def is_alive(self) -> bool:
        return self._process.returncode is None

    def connect(self) -> Link:
        self.links.append(Link(self))
        return self.links[-1]

    def claim(self) -> bool:
        """Make `start`; False when it was decided before."""
        with opened(self.folder) as folder:
            return create_start(
                folder, void=False, pid=self.pid, ticks=self.ticks, boot_id=procfs.boot_id(), protocol=self.protocol
            )

    async def prints(self, text: str, stream: str = "stdout") -> None:
        """The program writes, and the keeper tells of it."""
        with (self.folder / f"{stream}.log").open("a") as log:
            log.write(text)
        self._say(Grew(out=log_size(self.folder, "stdout"), err=log_size(self.folder, "stderr")))
        await idle()

    async def reports(self, **usage: Any) -> None:
        """The program writes to `LAYOVER_REPORT`."""
        (self.folder / "out" / "report").write_text(json.dumps(usage))

    async def exits(self, code: int | None = None, **fields: Any) -> None:
        """The program ends, its exit is recorded, nothing is left, and the keeper ends too."""
        self.end(code, **fields)
        await idle()

    async def vanishes(self) -> None:
        """`kill -9` of the keeper: no word, no record."""
        self.die()
        await idle()

    def hear(self, word: str, grace: float) -> None:
        self.asked.append(word)
        if not self.is_deaf and self.is_alive:
            self.end(signal=15, stopping=word)

    def end(self, code: int | None = None, **fields: Any) -> None:
        record = exit_fields(ended_at=self._clock()) | {"code": code} | fields
        (self.folder / "exit.json").write_bytes(encode(record))
        self._say(Exited())
        self._say(Gone())
        self.die()

    def die(self) -> None:
        self._process.kill()
        self._process.wait()
        self._say(None)

    def _say(self, word: Word | None) -> None:
        for link in self.links:
            link.say(word)


class Keepers:
    """In the place of `start_keeper` and `connect_keeper`; a test may act `before` and `after` `start` is made."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.plans: list[KeeperPlan] = []
        self.started: dict[str, ScriptedKeeper] = {}
        self.before: Callable[[KeeperPlan], Awaitable[None]] | None = None
        self.after: Callable[[KeeperPlan], Awaitable[None]] | None = None

    async def start(self, plan: KeeperPlan) -> Link:
        self.plans.append(plan)
        if self.before is not None:
            await self.before(plan)
        keeper = ScriptedKeeper(plan, self._clock)
        self.started[plan.run] = keeper
        if not keeper.claim():
            keeper.die()
            raise KeeperVoidError(plan.run)
        if self.after is not None:
            await self.after(plan)
        return keeper.connect()

    async def connect(self, _folder: str, _name: str, *, run: str, pid: int, ticks: int) -> Link | None:
        await anyio.lowlevel.checkpoint()
        keeper = self.started[run]
        assert (pid, ticks) == (keeper.pid, keeper.ticks)
        return keeper.connect() if keeper.is_alive and not keeper.is_mute else None

    def clear(self) -> None:
        for keeper in self.started.values():
            keeper.die()


class Scene:
    """A factory folder, the towers that serve it one after another, and what a test looks at."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.tree = folder / "tree"
        self.tree.mkdir()
        self.state = prepare(folder / "state")
        self.keepers = Keepers(now)
        self.patch = patch
        self.free = 1 << 40
        """Bytes free on the disk of the state folder."""
        self.on_open: Callable[[Store], object] = lambda _: None
        """Called with the store of each tower before anything is done with it."""
        self._random = random.Random(0)
        self._ids = count(1)
        patch.setattr(anyio.to_thread, "run_sync", in_place)
        patch.setattr(recover, "connect_keeper", self.keepers.connect)
        patch.setattr("tower.engine.tower.free_bytes", lambda _: self.free)

    def chance(self, size: int) -> bytes:
        """The same in every run of a test; ids, however close in time, sort in the order in which they were made."""
        return next(self._ids).to_bytes(size, "big") if size == RANDOM_BYTES else self._random.randbytes(size)

    def factory(
        self,
        *agents: Agent,
        routes: Iterable[str | Route] = (),
        runners: Iterable[Runner] = (),
        pipelines: Iterable[Pipeline] = (),
        **settings: Any,
    ) -> Factory:
        """A factory of these agents; a route may be written `a -> b`, or `a => b` for one that spawns.

        Writers share the tree unless it is said.
        """
        plain: dict[str, Any] = {
            "shared_writers": True,
            "max_concurrent_runs": 8,
            "min_free_bytes": 1 << 20,
            "snapshots_dir": str(self.state.snapshots),
            "logbook": str(self.state.root / "logbook.md"),
        }
        placed = (replace(one, work_dir=one.work_dir or str(self.tree)) for one in agents)
        return Factory(
            path=str(self.state.root.parent / "layover.toml"),
            digest=self.chance(8).hex(),
            settings=Settings(
                state_dir=str(self.state.root),
                work_dir=str(self.tree),
                socket=str(self.state.socket),
                **plain | settings,
            ),
            agents={one.name: one for one in placed},
            runners={runner.name: runner for runner in (TRUE, *runners)},
            routes=tuple(edge(route) if isinstance(route, str) else route for route in routes),
            pipelines={pipeline.name: pipeline for pipeline in pipelines},
            generation=1,
        )

    @asynccontextmanager
    async def tower(
        self,
        *agents: Agent,
        also: Iterable[Callable[[Tower], Awaitable[None]]] = (),
        environ: Mapping[str, str] | None = None,
        is_dispatching: bool = True,
        **factory: Any,
    ) -> AsyncIterator[Tower]:
        """One tower: it settles what it finds, then dispatches, with the tasks `also` beside it."""
        store = Store(self.state.database, inline=True)
        self.on_open(store)
        failure: BaseException | None = None
        try:
            async with anyio.create_task_group() as group:
                self.now = await self._made(store, group, self.factory(*agents, **factory), environ or {})
                try:
                    await recover.settle_open(self.now)
                    for task in also:
                        group.start_soon(task, self.now)
                    if is_dispatching:
                        await self.dispatch()
                    yield self.now
                except (Exception, pytest.fail.Exception) as error:
                    # Raised again outside of the group, so that a report shows it as it is.
                    failure = error
                group.cancel_scope.cancel()
        finally:
            await store.close()
        if failure is not None:
            raise failure

    async def _made(
        self, store: Store, group: anyio.abc.TaskGroup, factory: Factory, environ: Mapping[str, str]
    ) -> Tower:
        bus = Bus()
        store.on_commit(bus.publish)
        await store.write(partial(generations.record, digest=factory.digest, path=factory.path, at=now()))
        return Tower(
            store=store,
            state=self.state,
            bus=bus,
            clock=now,
            chance=self.chance,
            environ={"PATH": os.environ["PATH"], "HOME": "/nowhere"} | dict(environ),
            umask=0o022,
            descriptors=1024,
            cgroup=None,
            redaction=Redaction(),
            ballast=Ballast(self.state.ballast),
            start_keeper=self.keepers.start,
            factory=factory,
            tasks=group,
            started_at=now(),
            loaded_at=now(),
            python="/usr/bin/python3",
        )

    async def dispatch(self) -> None:
        """Let the tower begin to dispatch, and what follows happen."""
        self.now.tasks.start_soon(partial(dispatcher.dispatch, self.now, alive=lambda: None))
        await idle()

    def meanwhile(self, act: Callable[[], Awaitable[object]]) -> None:
        """Have `act` happen once in the middle of a round of the dispatcher: after its look, before its claim."""
        gathered = compose.handover_for

        async def gather(*arguments: Any) -> str | None:
            self.patch.setattr(compose, "handover_for", gathered)
            await act()
            return await gathered(*arguments)

        self.patch.setattr(compose, "handover_for", gather)

    async def send(self, to: str | None, body: str | None = "go", *, run: Run | None = None, **request: Any) -> str:
        """Send as Ann, or from within a run; returns the flight's id when all that follows at once has happened."""
        caller = ANN if run is None else Caller(name=run.agent, run=run.id)
        sent = await sending.send(self.now, caller, sending.Request(to=to, body=body, **request))
        await idle()
        return sent.flight.id

    async def read(self, operation: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """What an operation of the store returns."""
        return await self.now.store.read(lambda connection: operation(connection, *arguments, **named))

    async def flight(self, identity: str) -> Flight:
        found: Flight = await self.read(flights.get, identity)
        return found

    async def runs(self, flight: str) -> list[Run]:
        found: list[Run] = await self.read(runs.of_flight, flight)
        return found

    async def run(self, flight: str) -> Run:
        """The newest run of a flight."""
        return (await self.runs(flight))[-1]

    async def process(self, flight: str) -> Process:
        """The process of the newest run of a flight."""
        found: Process = await self.read(runs.process, (await self.run(flight)).process)
        return found

    async def itinerary(self, flight: str) -> Itinerary:
        found: Itinerary = await self.read(itineraries.get, (await self.flight(flight)).itinerary)
        return found

    async def keeper(self, flight: str) -> ScriptedKeeper:
        """The keeper of the newest run of a flight."""
        return self.keepers.started[(await self.run(flight)).id]

    async def events(self) -> list[Event]:
        found: list[Event] = await self.read(events.after, 0, limit=10_000)
        return found

    async def story(self, flight: str) -> list[str]:
        """The types of the events that tell of a flight."""
        return [event.type for event in await self.events() if event.flight == flight]

    def assert_free(self) -> None:
        """No slot or seat is taken, no connection open, no secret remembered, no snapshot left."""
        assert self.now.live == {}
        assert self.now.seats() == []
        assert all(link.is_closed for keeper in self.keepers.started.values() for link in keeper.links)
        given = [secret for plan in self.keepers.plans for secret in plan.secrets]
        assert [secret for secret in given if self.now.redaction.apply(secret) != secret] == []
        assert list(self.state.snapshots.iterdir()) == []

    @contextmanager
    def full_disk(self) -> Iterator[None]:
        """Meanwhile nothing can be written to the store."""

        async def refuse(_: object) -> None:
            await anyio.lowlevel.checkpoint()
            raise BusyError("disk-full", "cannot write to the database")

        with self.patch.context() as patch:
            patch.setattr(self.now.store, "write", refuse)
            yield


@contextmanager
def empty_scene() -> Iterator[Scene]:
    """A scene in which nothing is served yet; when it ends nothing is left of it."""
    folder = Path(tempfile.mkdtemp(prefix="tower-", dir=IN_MEMORY if IN_MEMORY.is_dir() else None))
    with pytest.MonkeyPatch.context() as patch:
        scene = Scene(folder, patch)
        try:
            yield scene
        finally:
            scene.keepers.clear()
            shutil.rmtree(folder)


def jumping_clock() -> dict[str, object]:
    """Options of trio: its clock jumps to the next deadline when nothing else can happen."""
    return {"clock": MockClock(autojump_threshold=0)}


async def idle() -> None:
    """Return when all that can happen without the clock moving has happened."""
    await anyio.wait_all_tasks_blocked()


async def later(seconds: float) -> None:
    """Return when so much time has passed, and all that it brought about has happened."""
    await anyio.sleep(seconds)
    await idle()


async def in_place(function: Callable[..., Any], *arguments: Any, **_: Any) -> Any:
    """`anyio.to_thread.run_sync` without the thread."""
    await anyio.lowlevel.checkpoint()
    return function(*arguments)


@contextmanager
def opened(folder: Path) -> Iterator[int]:
    """A descriptor of a folder."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
