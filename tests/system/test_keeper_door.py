"""The keeper's socket: whom it answers, and what it bears."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from stage import Stage, until

from tower.core.launch import KeeperPlan
from tower.system import keeping
from tower.system.keeper.ancestry import AncestryError, place_of, run_above
from tower.system.keeper.protocol import command
from tower.system.keeperlink import Exited, Gone, KeeperLink
from tower.system.keeping import connect_keeper
from tower.system.procfs import peer_credentials

pytestmark = pytest.mark.anyio

PEER = """
import os, socket, sys
sys.stdout.flush()
connection = socket.socket(socket.AF_UNIX)
connection.connect(os.environ["SOCKET"])
try:
    connection.sendall(b"stop cancelled 0\\n")
    print(repr(connection.recv(1000)), flush=True)
except ConnectionError:
    print("b''", flush=True)
"""


async def connect(plan: KeeperPlan, link: KeeperLink) -> KeeperLink | None:
    return await connect_keeper(plan.socket_dir, plan.socket_name, run=plan.run, pid=link.pid, ticks=link.ticks)


def raw(plan: KeeperPlan) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(os.path.join(plan.socket_dir, plan.socket_name))
    return connection


async def test_a_process_of_the_run_is_not_answered(stage: Stage) -> None:
    """Nor one that has left the session, its parent and the environment; nor one that lives below another keeper."""
    plan = stage.plan("true")
    script = f"""
import os, time
keeper = os.getppid()
peer = [{sys.executable!r}, "-I", "-c", {PEER!r}]
environment = {{"SOCKET": os.environ["SOCKET"]}}
if os.fork() == 0:
    os.execve(peer[0], peer, environment)
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    while os.getppid() != keeper:
        time.sleep(0.01)
    os.execve(peer[0], peer, environment)
time.sleep(1)
"""
    path = os.path.join(plan.socket_dir, plan.socket_name)
    argv = (sys.executable, "-I", "-c", script)
    link = await stage.start(replace(plan, argv=argv, env={"SOCKET": path}))
    await until(lambda: stage.log(plan.run).count(b"\n") == 2)
    other = stage.plan(sys.executable, "-I", "-c", PEER, env={"SOCKET": path})
    await stage.run(other)
    record = await stage.end(link)
    assert stage.log(plan.run) == b"b''\nb''\n"
    assert stage.log(other.run) == b"b''\n"
    assert record.stopping is None


async def test_a_person_of_the_same_user_is_answered(stage: Stage) -> None:
    plan = stage.plan("sleep", "60", env={})
    link = await stage.start(plan)
    path = os.path.join(plan.socket_dir, plan.socket_name)
    peer = await anyio.run_process([sys.executable, "-I", "-c", PEER], env={"SOCKET": path})
    assert peer.stdout.decode().startswith(f"b'hello 1 {link.pid} {link.ticks} {plan.run}")
    assert (await stage.end(link)).stopping == "cancelled"


async def test_which_run_a_process_belongs_to(stage: Stage, tmp_path: Path) -> None:
    link = await stage.start(stage.plan("sleep", "60"))
    assert run_above(link.agent_pid, str(stage.sockets)) == link.run
    assert run_above(os.getpid(), str(stage.sockets)) is None
    assert run_above(link.agent_pid, str(tmp_path)) is None  # a keeper of another tower
    moved = tmp_path / "moved"
    stage.sockets.rename(moved)
    stage.sockets.mkdir()
    assert run_above(link.agent_pid, str(moved)) == link.run
    with pytest.raises(AncestryError):
        run_above(0, str(stage.sockets))
    await link.stop("cancelled", 0)
    await stage.end(link)


async def test_what_a_later_tower_has_missed(stage: Stage) -> None:
    plan = stage.sh("echo some output; trap '' TERM; sleep 60 & exit 5", linger=1.5)
    link = await stage.start(plan)
    heard = link.words()
    async for word in heard:
        if word == Exited():
            break
    with raw(plan) as connection:
        connection.settimeout(5)
        lines = connection.recv(1000).decode().splitlines()
    assert lines == [
        f"hello 1 {link.pid} {link.ticks} {plan.run}",
        f"started {link.agent_pid} {link.agent_ticks} alone",
        "grew 12 0",
        "exited",
    ]
    again = await connect(plan, link)
    assert again is not None
    assert (again.agent_pid, again.agent_ticks, again.protocol) == (link.agent_pid, link.agent_ticks, 1)
    await again.stop("stop", 0)
    assert (await stage.words(again))[-1] == Gone()


async def test_every_tower_hears_the_same(stage: Stage) -> None:
    plan = stage.sh("sleep 0.3; exit 1")
    first = await stage.start(plan)
    second = await connect(plan, first)
    assert second is not None
    heard = {}

    async def listen(link: KeeperLink, name: str) -> None:
        heard[name] = [word for word in await stage.words(link) if isinstance(word, Exited | Gone)]

    async with anyio.create_task_group() as group:
        group.start_soon(listen, first, "first")
        group.start_soon(listen, second, "second")
    assert heard == {"first": [Exited(), Gone()], "second": [Exited(), Gone()]}


async def test_a_peer_that_never_reads_holds_nobody_up(stage: Stage) -> None:
    plan = stage.sh("yes | head -c 30000000; echo done; sleep 0.5; exit 2", max_log_bytes=1 << 20)
    link = await stage.start(plan)
    with raw(plan):
        assert (await stage.end(link)).code == 2


@pytest.mark.parametrize(
    "sent",
    [
        b"stop\n",
        b"stop cancelled\n",
        b"stop cancelled nan\n",
        b"stop cancelled -1\n",
        b"stop cancelled inf\n",
        b"stop can\xffcelled 1\n",
        b"what is this\n\n\n",
        b"x" * 10_000,
        b"",
    ],
)
async def test_what_is_no_word_changes_nothing(stage: Stage, sent: bytes) -> None:
    plan = stage.sh("sleep 0.3; exit 5")
    link = await stage.start(plan)
    with raw(plan) as connection, contextlib.suppress(ConnectionError):
        connection.sendall(sent)
    record = await stage.end(link)
    assert (record.code, record.stopping) == (5, None)


async def test_a_word_that_comes_in_pieces(stage: Stage) -> None:
    plan = stage.plan("sleep", "60")
    link = await stage.start(plan)
    with raw(plan) as connection:
        for piece in (b"po", b"ke\nsto", b"p halted 1", b"0\n"):
            connection.sendall(piece)
            await anyio.sleep(0.02)
        assert (await stage.end(link)).stopping == "halted"


async def test_connections_beyond_the_limit_are_closed(stage: Stage) -> None:
    plan = stage.plan("sleep", "60")
    link = await stage.start(plan)
    with contextlib.ExitStack() as stack:
        many = [stack.enter_context(raw(plan)) for _ in range(20)]
        greetings = 0
        for connection in many:
            connection.settimeout(5)
            with contextlib.suppress(ConnectionError):
                greetings += connection.recv(1000).startswith(b"hello")
        assert greetings == 15
        await link.stop("cancelled", 0)
        await stage.end(link)


async def test_running_out_of_descriptors_is_survived(stage: Stage) -> None:
    plan = stage.plan("sleep", "60")
    link = await stage.start(plan)
    _, hard = resource.prlimit(link.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(link.pid, resource.RLIMIT_NOFILE, (6, hard))  # as many as it polls; it has more open
    before = _cpu_ticks(link.pid)
    with raw(plan) as connection:
        connection.settimeout(0.6)
        with pytest.raises(TimeoutError):
            connection.recv(100)
        assert _cpu_ticks(link.pid) - before < 10
        resource.prlimit(link.pid, resource.RLIMIT_NOFILE, (hard, hard))
        connection.settimeout(5)
        assert connection.recv(100).startswith(b"hello")
        await link.stop("cancelled", 0)
        await stage.end(link)


def _cpu_ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


@pytest.fixture
def keeper_of_nobody(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, list[str]]]:
    """A keeper that waits for its plan, and the prefix of a command that runs as the same unprivileged user."""
    prefix: list[str] = []
    python, root = sys.executable, keeping.ROOT
    if os.geteuid() == 0:
        prefix = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        python = "/usr/bin/python3"
        root = "/tmp/" + os.path.basename(str(tmp_path_factory.mktemp("seen")))
        shutil.copytree(Path(keeping.ROOT, "tower"), Path(root, "tower"), dirs_exist_ok=True)
        os.chmod(root, 0o755)  # noqa: S103 - that user is to read it
        if subprocess.run([*prefix, python, "-c", ""], capture_output=True).returncode:
            pytest.skip("no Python that an unprivileged user can run")
    ours, theirs = socket.socketpair()
    argv = [*prefix, *command(python, root, "/", "run_x", place_of("/"))]
    with ours, theirs:
        keeper = subprocess.Popen(argv, stdin=theirs.fileno(), env={"CANARY": "in the keeper's environment"})
        ours.settimeout(10)
        assert ours.recv(100).startswith(b"hello")
        yield keeper.pid, prefix
    keeper.wait(10)
    if root != keeping.ROOT:
        shutil.rmtree(root)


def test_nobody_of_the_same_user_can_read_a_keeper(keeper_of_nobody: tuple[int, list[str]]) -> None:
    pid, prefix = keeper_of_nobody
    for way in ("cat environ", "cat mem", "cat maps", "cat auxv", "ls fd"):
        program, name = way.split()
        look = subprocess.run([*prefix, program, f"/proc/{pid}/{name}"], capture_output=True)
        assert b"Permission denied" in look.stderr, name
        assert look.stdout == b""
    look = subprocess.run([*prefix, "cat", f"/proc/{pid}/cmdline"], capture_output=True)
    assert b"tower-keeper\0/\0run_x\0" in look.stdout


def test_a_keeper_whose_tower_goes_away_before_the_plan_ends(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        argv = command(sys.executable, keeping.ROOT, str(tmp_path), "run_x", place_of(str(tmp_path)))
        keeper = subprocess.Popen(argv, stdin=theirs.fileno(), env={})
    ours.settimeout(10)
    pid, uid, _ = peer_credentials(ours)
    assert (pid, uid) == (os.getpid(), os.geteuid())
    assert ours.recv(100).startswith(b"hello")
    ours.sendall(b"\0\0\1\0 half a plan")
    ours.close()
    assert keeper.wait(5) == 0
    assert list(tmp_path.iterdir()) == []
