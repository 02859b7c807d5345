"""Keepers forked from the nursery are keepers like any other, and live longer than it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial

import anyio
import pytest
from stage import Stage, until

from tower.system import procfs
from tower.system.keeper.ancestry import run_above
from tower.system.keeperlink import Gone
from tower.system.keeping import connect_keeper, start_keeper
from tower.system.nursery import Nursery
from tower.system.runrecords import read_exit, read_start

pytestmark = pytest.mark.anyio


@pytest.fixture
def nursery() -> Iterator[Nursery]:
    with Nursery() as made:
        yield made


def pid_of(nursery: Nursery) -> int:
    process = nursery._process
    assert process is not None
    return process.pid


async def test_a_run_from_start_to_end(stage: Stage, nursery: Nursery) -> None:
    plan = stage.sh("cat; exit 3")
    link = await start_keeper(plan, spawn=nursery.spawn)
    assert procfs.parent(link.pid) == pid_of(nursery)
    start = read_start(plan.folder)
    assert start is not None
    assert (start.pid, start.ticks) == (link.pid, link.ticks)
    assert [word async for word in link.words()][-1] == Gone()
    await link.aclose()
    record = read_exit(plan.folder)
    assert record is not None
    assert (record.code, record.swept) == (3, True)
    # Nobody has to wait for it.
    assert procfs.start_ticks(link.pid) is None


async def test_it_is_known_by_its_name_and_closed_to_others_as_any_keeper(stage: Stage, nursery: Nursery) -> None:
    plan = stage.sh("sleep 60", grace=0.2)
    link = await start_keeper(plan, spawn=nursery.spawn)
    assert procfs.session(link.pid) == link.pid
    assert run_above(link.agent_pid, plan.socket_dir) == plan.run
    assert run_above(link.pid, plan.socket_dir) == plan.run
    assert run_above(pid_of(nursery), plan.socket_dir) is None
    assert run_above(os.getpid(), plan.socket_dir) is None
    assert procfs.has_no_new_privs(link.pid)
    assert not procfs.has_no_new_privs(pid_of(nursery))
    assert not any(procfs.environ(link.pid))
    await link.stop("cancelled", 0.2)
    assert [word async for word in link.words()][-1] == Gone()
    await link.aclose()


async def test_many_at_once(stage: Stage, nursery: Nursery) -> None:
    codes: list[int | None] = []

    async def one(number: int) -> None:
        plan = stage.sh(f"exit {number}")
        link = await start_keeper(plan, spawn=nursery.spawn)
        async for _ in link.words():
            pass
        await link.aclose()
        record = read_exit(plan.folder)
        codes.append(record.code if record else None)

    async with anyio.create_task_group() as group:
        for number in range(40):
            group.start_soon(one, number)
    assert sorted(codes, key=str) == sorted(range(40), key=str)
    assert procfs.children(pid_of(nursery)) == []


async def test_keepers_outlive_it_and_a_new_one_is_made_when_it_was_killed(stage: Stage, nursery: Nursery) -> None:
    """B007: no keeper is bound to the process or thread that started it."""
    plan = stage.sh("sleep 60", grace=0.2)
    link = await start_keeper(plan, spawn=nursery.spawn)
    before = pid_of(nursery)
    os.kill(before, signal.SIGKILL)
    # It may die with a request in its hands, or be found dead by the next one: a keeper is started all the same.
    for _ in range(2):
        await stage.end(await start_keeper(stage.plan("true"), spawn=nursery.spawn))
    assert pid_of(nursery) != before
    assert link.is_alive
    await link.stop("cancelled", 0.2)
    async for _ in link.words():
        pass
    await link.aclose()


async def test_a_start_that_is_cancelled_leaves_nothing(stage: Stage, nursery: Nursery) -> None:
    plan = stage.plan("true")
    known: list[int] = []

    async def give_up(pid: int, ticks: int) -> None:
        known.append(pid)
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        await start_keeper(plan, spawn=nursery.spawn, on_pid=give_up)
    assert read_start(plan.folder) is None
    await until(lambda: procfs.start_ticks(known[0]) is None)


def test_it_ends_with_its_tower_and_its_keepers_go_on(stage: Stage) -> None:
    tower = """
import pickle, sys, anyio
from functools import partial
from tower.system.keeping import start_keeper
from tower.system.nursery import Nursery

async def main():
    nursery = Nursery().__enter__()
    link = await start_keeper(pickle.load(sys.stdin.buffer), spawn=nursery.spawn)
    print(nursery._process.pid, link.pid, link.ticks, flush=True)
    await anyio.sleep(60)

anyio.run(main)
"""
    import pickle

    plan = stage.sh("sleep 60", grace=0.2)
    with subprocess.Popen([sys.executable, "-c", tower], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(pickle.dumps(plan))
        process.stdin.close()
        of_nursery, pid, ticks = map(int, process.stdout.readline().split())
        process.kill()

    async def adopt() -> None:
        await until(lambda: procfs.start_ticks(of_nursery) is None or procfs.is_zombie(of_nursery))
        connect = partial(connect_keeper, plan.socket_dir, plan.socket_name, run=plan.run)
        link = await connect(pid=pid, ticks=ticks)
        assert link is not None
        await link.stop("cancelled", 0.2)
        assert [word async for word in link.words()][-1] == Gone()
        await link.aclose()

    anyio.run(adopt)
