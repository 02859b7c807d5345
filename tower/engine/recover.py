"""Bringing the world in line with the records at a start.

At a start every run that the store shows as open is settled before anything else is dispatched: its keeper is found
and watched again, or how it ended is read, or it is interrupted and its agent's policy decides. Which of these it is
says `core.recovery.settle`; nothing is started again before all of the earlier run is confirmed gone. What a person
lets go on is `again`'s.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

import anyio

from tower.core.factory import Agent, RecoveryPolicy, Runner
from tower.core.launch import LIVE, SNAPSHOT, WORKTREE
from tower.core.prompts import Prompt
from tower.core.rails import seat_of
from tower.core.records import Process, Run
from tower.core.recovery import Found, Settlement, Sight
from tower.core.recovery import settle as decide
from tower.core.states import Interruption
from tower.engine import offering, places, secrecy
from tower.engine.conduct import follow, record_start
from tower.engine.evidence import session_of, start_of
from tower.engine.settle import settle
from tower.engine.tower import LiveRun, Tower, log
from tower.engine.unstarted import forbid, settle_unstarted, want_of
from tower.store import events, runs
from tower.store.database import Connection
from tower.system import procfs
from tower.system.keeperlink import KeeperLink
from tower.system.keeping import connect_keeper
from tower.system.runrecords import read_exit, read_start
from tower.system.survivors import end_survivors

AT_ONCE: Final = 16
"""Open runs that are looked into at the same time."""

MUTE_SEC: Final = 1.0
"""Pause before a keeper that lives and does not answer (stopped, or of another protocol) is asked again."""


OpenRun = tuple[Run, Process | None]

DEFECT_SEC: Final = 5.0
"""Pause before a run whose task failed by a defect is looked at anew."""


async def settle_open(tower: Tower) -> None:
    """Settle every open run with a process of its own, or watch it again. Returns when it is known of each which."""
    open_runs = await tower.store.read(
        lambda connection: [
            (run, runs.process(connection, run.process))
            for run in runs.open_runs(connection)
            if run.turn is None  # turns belong to their residents
        ]
    )
    limit = anyio.CapacityLimiter(AT_ONCE)

    async def one(run: Run, process: Process) -> None:
        async with limit:
            await _settle_one(tower, run, process)

    async with anyio.create_task_group() as group:
        for run, process in open_runs:
            if process is not None:
                group.start_soon(one, run, process)


async def see_through(tower: Tower, live: LiveRun, task: Callable[[], Awaitable[None]]) -> None:
    """Carry out the task of one run. A defect in it must neither end the tower nor leave the run open for ever:
    what is there is looked at anew, as at a start, until the run is settled or watched again."""
    while True:
        try:
            await task()
            return
        except Exception as error:
            log.exception("run.defect", run=live.run.id, error=str(error))
        await anyio.sleep(DEFECT_SEC)
        if live.run.id not in tower.live:
            return
        task = partial(_look_anew, tower, live)


async def _look_anew(tower: Tower, live: LiveRun) -> None:
    def read(connection: Connection) -> tuple[Run | None, Process | None]:
        return runs.get(connection, live.run.id), runs.process(connection, live.run.process)

    run, process = await tower.store.read(read)
    assert run is not None  # noqa: S101 (claimed, and never deleted)
    assert process is not None  # noqa: S101 (a foreign key of the run)
    live.run = run
    await _act(tower, live, process)


async def _settle_one(tower: Tower, run: Run, process: Process) -> None:
    live = live_of(tower, run)
    tower.live[run.id] = live
    if run.frozen is not None:
        tower.frozen.hold(run.id, run.frozen)
    await _act(tower, live, process)


async def _act(tower: Tower, live: LiveRun, process: Process) -> None:
    keeper = keeper_of(process)
    found, left = await look(live.run.id, process, keeper)
    decision = decide(found)
    log.info("run.found", run=live.run.id, decision=decision.value)
    match decision:
        case Settlement.ADOPT:
            assert keeper is not None  # noqa: S101 (adopting follows from a living keeper)
            # Before the doors open: it may have called already.
            await secrecy.keep_found(tower, live, live.agent, live.runner, process, keeper.pid)
            offering.make_ready(tower, live.runner)
            adopt = partial(_adopt, tower, live, process, keeper)
            tower.tasks.start_soon(see_through, tower, live, adopt, name=f"adopt {live.run.id}")
        case Settlement.VOID_AND_REQUEUE:
            if live.run.workspace is not None and not Path(process.folder).exists():
                # A power cut took the folder, which was there, and with it who had started the run, if anybody had.
                await _settle_gone(tower, live, process, left)
            elif await forbid(Path(process.folder)):
                await settle_unstarted(tower, live, None)
            elif read_start(process.folder) is not None:
                # A keeper of the tower that is gone made `start` at this very moment: it decides.
                await _act(tower, live, process)
            else:
                # There is a `start` that cannot be read: the program has run, and may have spoilt it.
                await _settle_gone(tower, live, process, left)
        case _:
            await _settle_gone(tower, live, process, left)


async def _settle_gone(tower: Tower, live: LiveRun, process: Process, left: tuple[int, ...]) -> None:
    if want := want_of(Path(process.folder)):
        await settle_unstarted(tower, live, want)
    else:
        await settle(tower, live, without_exit=Interruption.TOWER_RESTART, seen_at=process.last_seen_at, left=left)
    tower.tasks.start_soon(places.discard_of, tower, live.run)
    tower.tasks.start_soon(places.empty_scratch, Path(process.folder))


async def look(marker: str, process: Process, keeper: Keeper | None) -> tuple[Found, tuple[int, ...]]:
    """What is left of an open run, or of a resident's process: of all processes that carry `marker`.

    Where no keeper watches over them any more, they are ended first; those that would not are returned as well.
    """
    start = start_of(process)
    watched_over = keeper is not None and keeper.is_alive
    left = () if watched_over else await end_survivors(marker, session_of(process), process.cgroup)
    found = Found(
        start=start,
        exit=read_exit(process.folder),
        keeper=Sight.ALIVE if watched_over else Sight.GONE,
        survivors=Sight.UNKNOWN if left else Sight.GONE,
        same_boot=start is None or start.boot_id == procfs.boot_id(),
    )
    return found, left


@dataclass(frozen=True, slots=True)
class Keeper:
    """Who a keeper is: with pid, start ticks and boot id a process is named for good."""

    pid: int
    ticks: int
    boot_id: str

    @property
    def is_alive(self) -> bool:
        return procfs.is_same(self.pid, self.ticks, self.boot_id)


def keeper_of(process: Process) -> Keeper | None:
    """Who watches over a process, or did; None when none was told to, or none may any more."""
    start = start_of(process)
    return None if start is None or start.void else Keeper(start.pid, start.ticks, start.boot_id)


async def _adopt(tower: Tower, live: LiveRun, process: Process, keeper: Keeper) -> None:
    """Watch a keeper of an earlier tower again, for as long as it lives."""
    while keeper.is_alive:
        link = await reach(tower, live.run.id, keeper)
        if link is not None:
            await tower.persist(partial(_record_adoption, tower, live, link))
            # Once more, now that its program is there for certain.
            await secrecy.keep_found(tower, live, live.agent, live.runner, process, keeper.pid)
            offering.expect(tower, live)
            await follow(tower, live, link)
            break
        await anyio.sleep(MUTE_SEC)
    else:
        await settle(tower, live, without_exit=Interruption.TOWER_RESTART, seen_at=process.last_seen_at)
    await places.discard_of(tower, live.run)
    await places.empty_scratch(Path(process.folder))


async def reach(tower: Tower, identity: str, keeper: Keeper) -> KeeperLink | None:
    """A connection to the keeper of an earlier tower, by the id of its run or process; None when it does not answer."""
    return await connect_keeper(
        str(tower.state.keepers), identity.partition("_")[2], run=identity, pid=keeper.pid, ticks=keeper.ticks
    )


def _record_adoption(tower: Tower, live: LiveRun, link: KeeperLink, connection: Connection) -> None:
    """Written anew, for the tower before may have died between the start and its record."""
    record_start(tower, live, link, connection)
    run = live.run
    events.append(connection, tower.event("run.adopted", run=run.id, itinerary=run.itinerary, agent=run.agent))


def live_of(tower: Tower, run: Run) -> LiveRun:
    """A run of an earlier tower, with the agent and runner as they are now."""
    agent = tower.factory.agents.get(run.agent) or _unknown(run.agent)
    runner = tower.factory.runners.get(run.runner) or Runner(name=run.runner, kind="cmd")
    own = run.workspace_kind == WORKTREE
    seat = seat_of(agent, run.itinerary, own_worktree=own)
    if run.workspace_kind == LIVE:
        # Where it writes, whatever the configuration says by now.
        seat = replace(seat, tree=run.workspace)
    elif run.workspace_kind == SNAPSHOT:
        seat = replace(seat, tree=None)
    live = LiveRun(run=run, agent=agent, runner=runner, seat=seat, has_own_worktree=own, stopping=run.stopping)
    if run.tools_at is not None:
        live.has_tools.set()
    return live


def _unknown(name: str) -> Agent:
    """Stands for an agent that has left the configuration: nothing of it is repeated without a person."""
    return Agent(name=name, runner="none", instructions=Prompt(), work_dir="", recovery=RecoveryPolicy.MANUAL)
