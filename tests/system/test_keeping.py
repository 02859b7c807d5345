"""The tower's end: starting keepers, losing them, and finding them again."""

from __future__ import annotations

import os
import pickle
import signal
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from stage import Stage, is_running, until

from tower.core.errors import ConflictError
from tower.core.launch import KeeperPlan
from tower.system import keeping, procfs
from tower.system.keeperlink import Gone, KeeperLink
from tower.system.keeping import KeeperLostError, KeeperVoidError, StartFailedError, connect_keeper, start_keeper
from tower.system.runrecords import read_exit, read_start, void_start

pytestmark = pytest.mark.anyio

TOWER = """
import pickle, sys, anyio
from tower.system.keeping import start_keeper

async def main():
    link = await start_keeper(pickle.load(sys.stdin.buffer))
    print(link.pid, link.ticks, flush=True)
    await anyio.sleep(60)

anyio.run(main)
"""


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def connect(plan: KeeperPlan, pid: int, ticks: int) -> KeeperLink | None:
    return await connect_keeper(plan.socket_dir, plan.socket_name, run=plan.run, pid=pid, ticks=ticks)


async def test_a_start_and_its_end(stage: Stage) -> None:
    link = await stage.start(stage.sh("sleep 0.05; exit 3"))
    assert link.is_alive
    assert is_running(link.agent_pid)
    assert (await stage.words(link))[-1] == Gone()
    assert not link.is_alive
    assert procfs.start_ticks(link.pid) is None  # reaped, not a zombie
    assert stage.exit(link).code == 3


async def test_many_at_once(stage: Stage) -> None:
    codes: list[int | None] = []

    async def one(number: int) -> None:
        codes.append((await stage.run(stage.sh(f"exit {number}"))).code)

    async with anyio.create_task_group() as group:
        for number in range(12):
            group.start_soon(one, number)
    assert sorted(codes, key=str) == sorted(range(12), key=str)


async def test_the_pid_is_known_before_anything_is_told(stage: Stage) -> None:
    plan = stage.plan("true")
    known: list[tuple[int, int | None]] = []

    async def note(pid: int, ticks: int) -> None:
        assert read_start(plan.folder) is None
        assert procfs.start_ticks(pid) == ticks
        known.append((pid, ticks))

    link = await start_keeper(plan, on_pid=note)
    assert known == [(link.pid, link.ticks)]
    await stage.words(link)


@pytest.mark.parametrize("how", ["cancelled", "raised"])
async def test_a_start_given_up_before_the_plan_leaves_nothing(stage: Stage, how: str) -> None:
    plan = stage.plan("true")
    keepers: list[int] = []

    async def note(pid: int, ticks: int) -> None:
        keepers.append(pid)
        if how == "raised":
            raise OSError("the database is gone")
        scope.cancel()
        await anyio.lowlevel.checkpoint()

    with anyio.CancelScope() as scope:
        if how == "raised":
            with pytest.raises(OSError, match="the database is gone"):
                await start_keeper(plan, on_pid=note)
        else:
            await start_keeper(plan, on_pid=note)
    assert procfs.start_ticks(keepers[0]) is None
    assert read_start(plan.folder) is None
    assert void_start(plan.folder)


async def test_a_start_cancelled_after_the_plan_goes_on(stage: Stage) -> None:
    plan = stage.sh("exit 4", failpoints={"keeper.start-after": "stop"})
    with anyio.move_on_after(0.3):
        await start_keeper(plan)
    start = read_start(plan.folder)
    assert start is not None
    assert procfs.is_same(start.pid, start.ticks, start.boot_id)
    os.kill(start.pid, signal.SIGCONT)
    await until(lambda: not procfs.is_same(start.pid, start.ticks, start.boot_id))
    record = read_exit(plan.folder)
    assert record is not None
    assert record.code == 4


async def test_a_keeper_that_cannot_be_started(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "ROOT", "/nowhere")
    with pytest.raises(StartFailedError, match="keeper: it ended before it said hello"):
        await stage.start(stage.plan("true"))
    monkeypatch.setattr(sys, "executable", "/no/python")
    with pytest.raises(StartFailedError, match="No such file"):
        await stage.start(stage.plan("true"))
    with pytest.raises(StartFailedError, match="No such file"):
        await stage.start(stage.plan("true", socket_dir="/no/folder"))


async def test_a_keeper_that_never_speaks(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    silent = stage.root / "python"
    silent.write_text("#!/bin/sh\nexec sleep 60\n")
    silent.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(silent))
    monkeypatch.setattr(keeping, "HELLO_WITHIN", 0.2)
    with pytest.raises(StartFailedError, match="did not say hello"):
        await stage.start(stage.plan("true"))


async def test_a_start_that_was_voided(stage: Stage) -> None:
    plan = stage.sh(f"touch {stage.root}/ran")
    assert void_start(plan.folder)
    assert not void_start(plan.folder)
    with pytest.raises(KeeperVoidError):
        await stage.start(plan)
    start = read_start(plan.folder)
    assert start is not None
    assert (start.void, start.pid) == (True, os.getpid())
    assert not (stage.root / "ran").exists()
    assert read_exit(plan.folder) is None


async def test_of_keepers_that_race_one_starts_the_program(stage: Stage) -> None:
    plan = stage.sh(f"echo x >> {stage.root}/ran; exit 0")
    links: list[KeeperLink] = []
    refused: list[KeeperVoidError] = []

    async def one(number: int) -> None:
        try:
            links.append(await stage.start(replace(plan, socket_name=f"s{number}")))
        except KeeperVoidError as error:
            refused.append(error)

    async with anyio.create_task_group() as group:
        for number in range(6):
            group.start_soon(one, number)
    assert (len(links), len(refused)) == (1, 5)
    assert (await stage.end(links[0])).code == 0
    assert (stage.root / "ran").read_text() == "x\n"
    start = read_start(plan.folder)
    assert start is not None
    assert start.pid == links[0].pid


async def test_a_keeper_lost_while_it_starts(stage: Stage) -> None:
    with pytest.raises(KeeperLostError):
        await stage.start(stage.plan("true", failpoints={"keeper.start-after": "kill"}))


def tower_that_is_killed(plan: KeeperPlan) -> tuple[int, int]:
    """Start the run by another process, which is killed; returns pid and start ticks of the keeper."""
    tower = subprocess.Popen(
        [sys.executable, "-c", TOWER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=keeping.ROOT
    )
    assert tower.stdin is not None
    assert tower.stdout is not None
    with tower.stdin, tower.stdout:
        tower.stdin.write(pickle.dumps(plan))
        tower.stdin.close()
        pid, ticks = map(int, tower.stdout.readline().split())
        tower.kill()
        tower.wait()
    return pid, ticks


async def test_a_tower_is_killed_and_the_next_one_adopts(stage: Stage) -> None:
    plan = stage.sh("echo before; sleep 0.6; echo after; exit 5", orphan=60.0)
    pid, ticks = tower_that_is_killed(plan)
    assert procfs.is_same(pid, ticks, procfs.boot_id())
    link = await connect(plan, pid, ticks)
    assert link is not None
    assert (await stage.words(link))[-1] == Gone()
    record = stage.exit(link)
    assert (record.code, record.limit, record.stopping, record.swept) == (5, None, None, True)
    assert stage.log(plan.run) == b"before\nafter\n"


async def test_a_keeper_is_only_taken_for_one_when_all_agrees(stage: Stage) -> None:
    plan = stage.plan("sleep", "60")
    link = await stage.start(plan)
    assert await connect(plan, link.pid, link.ticks + 1) is None
    assert await connect(plan, link.agent_pid, link.agent_ticks) is None
    assert await connect(replace(plan, run="run_other"), link.pid, link.ticks) is None
    assert await connect(replace(plan, socket_name="nobody"), link.pid, link.ticks) is None
    assert await connect(replace(plan, socket_dir="/no/folder"), link.pid, link.ticks) is None
    await link.stop("cancelled", 0)
    await stage.end(link)
    assert await connect(plan, link.pid, link.ticks) is None


async def test_a_keeper_that_is_frozen_does_not_answer_and_is_alive(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "ANSWER_WITHIN", 0.2)
    plan = stage.plan("sleep", "60")
    link = await stage.start(plan)
    os.kill(link.pid, signal.SIGSTOP)
    assert await connect(plan, link.pid, link.ticks) is None
    assert link.is_alive
    os.kill(link.pid, signal.SIGCONT)
    again = await connect(plan, link.pid, link.ticks)
    assert again is not None
    await again.stop("cancelled", 0)
    await link.aclose()
    await stage.end(again)


async def test_a_keeper_of_another_version_is_only_watched(stage: Stage) -> None:
    """Played by this process, which listens as such a keeper would."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(stage.sockets / "old"))
        listener.listen()
        ticks = procfs.start_ticks(os.getpid()) or 0
        async with anyio.create_task_group() as group:
            group.start_soon(_answer, listener, f"hello 99 {os.getpid()} {ticks} run_x\nnews of a later time\ngone\n")
            link = await connect_keeper(str(stage.sockets), "old", run="run_x", pid=os.getpid(), ticks=ticks)
        assert link is not None
        assert link.protocol == 99
        with pytest.raises(ConflictError, match="version 99"):
            await link.stop("cancelled", 1)
        with pytest.raises(ConflictError):
            await link.poke()
        heard = link.words()
        assert await anext(heard) == Gone()
        await link.aclose()


async def _answer(listener: socket.socket, text: str) -> None:
    await anyio.wait_readable(listener)
    connection, _ = listener.accept()
    with connection:
        connection.sendall(text.encode())


async def test_words_end_when_the_link_is_closed(stage: Stage) -> None:
    link = await stage.start(stage.plan("sleep", "60"))
    async with anyio.create_task_group() as group:
        group.start_soon(stage.words, link)
        await anyio.sleep(0.05)
        keeping_on = await connect_keeper(
            str(stage.sockets), link.run.partition("_")[2], run=link.run, pid=link.pid, ticks=link.ticks
        )
        assert keeping_on is not None
        await keeping_on.stop("cancelled", 0)
        await link.aclose()
        await link.aclose()
    await stage.end(keeping_on)


async def test_asking_a_keeper_that_is_gone_is_no_error(stage: Stage) -> None:
    link = await stage.start(stage.plan("sleep", "60"))
    os.kill(link.pid, signal.SIGKILL)
    await until(lambda: not link.is_alive)
    await link.stop("cancelled", 0)
    await link.poke()
    assert await stage.words(link) == []
    assert Path(f"/proc/{link.agent_pid}").exists()  # ending what is left is the tower's part


async def test_a_folder_too_deep_for_a_socket_path(stage: Stage) -> None:
    deep = stage.root / ("d" * 100) / ("e" * 100)
    deep.mkdir(parents=True)
    plan = stage.sh("sleep 0.2; exit 1", socket_dir=str(deep))
    link = await stage.start(plan)
    again = await connect(plan, link.pid, link.ticks)
    assert again is not None
    await again.aclose()
    assert (await stage.end(link)).code == 1
    assert list(deep.iterdir()) == []
