"""Accepting when there is nothing left to accept with, crowds, and an end within bounds."""

import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import anyio
import pytest

from tower.web import server

from .conftest import Open
from .fakes import FakeVerbs, ask, dial, read_all

SERVE_WITH_FEW = """
import os, resource, socket, sys
from pathlib import Path
import anyio
from tower.web.access import Access
from tower.web.app import create_app
from tower.web.server import serve
from tests_fakes import FakeVerbs

async def nobody(_):
    return None

async def main(folder):
    (folder / "k").mkdir()
    access = Access(keeper_sockets=str(folder / "k"), agent_of_token=nobody, own_pid=0)
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(folder / "tower.sock"))
    listening.listen(128)
    async with serve(create_app(FakeVerbs().control(), access), [listening]):
        used = len(os.listdir("/proc/self/fd"))
        resource.setrlimit(resource.RLIMIT_NOFILE, (used + 12, used + 12))
        print("up", flush=True)
        await anyio.sleep_forever()

anyio.run(main, Path(sys.argv[1]))
"""


def test_it_survives_running_out_of_descriptors(tmp_path: Path) -> None:
    (tmp_path / "tests_fakes.py").write_text((Path(__file__).parent / "fakes.py").read_text())
    process = subprocess.Popen(
        [sys.executable, "-c", SERVE_WITH_FEW, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": f"{tmp_path}:{Path(__file__).parents[2]}"},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    path = tmp_path / "tower.sock"
    held = [dial(path) for _ in range(40)]
    told = 0
    for link in held:
        link.settimeout(0.05)
        try:
            reply = link.recv(1 << 16)
        except TimeoutError:
            continue
        assert reply.startswith(b"HTTP/1.1 503 ")
        assert json.loads(reply.partition(b"\r\n\r\n")[2])["code"] == "no-descriptors"
        told += 1
    assert told >= 20
    for link in held:
        link.close()
    began = time.monotonic()
    while (answer := ask(path, "GET", "/health")).status != 200:
        assert answer.code == "no-descriptors"
        assert time.monotonic() - began < 5
    assert process.poll() is None
    process.kill()
    rest = process.communicate()[0]
    assert rest.count("socket.descriptors_short") == 1


def test_a_crowd_is_told(open_door: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "CONNECTIONS", 10)
    door = open_door()
    held = [dial(door.path) for _ in range(10)]
    for link in held:  # each is served, so each is counted
        link.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert link.recv(1 << 16).startswith(b"HTTP/1.1 200 ")
    answer = door.ask("GET", "/health")
    assert (answer.status, answer.code) == (503, "too-many-connections")
    assert answer.headers["retry-after"] == "1"
    held.pop().close()
    deadline = time.monotonic() + 5
    while door.ask("GET", "/health").status != 200:
        assert time.monotonic() < deadline
    for link in held:
        link.close()


def test_runs_cannot_shut_people_out(open_door: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "RUN_CONNECTIONS", 3)
    door = open_door()
    real = type(door.app.state.access).look
    as_run = threading.Event()

    def look(self: object, connection: object) -> object:
        peer = real(self, connection)  # type: ignore[arg-type]
        from dataclasses import replace

        return replace(peer, run="run_1") if as_run.is_set() else peer

    monkeypatch.setattr(type(door.app.state.access), "look", look)
    as_run.set()
    held = [dial(door.path) for _ in range(3)]
    for link in held:
        link.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert link.recv(1 << 16).startswith(b"HTTP/1.1 403 ")
    # A refusal closes; three that say nothing stay.
    silent = [dial(door.path) for _ in range(3)]
    deadline = time.monotonic() + 5
    while (answer := door.ask("GET", "/health")).code != "too-many-connections":
        assert time.monotonic() < deadline
    assert answer.status == 503
    as_run.clear()
    assert door.ask("GET", "/health").status == 200
    for link in (*held, *silent):
        link.close()


def test_what_is_under_way_is_answered_before_the_end(open_door: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    entered = threading.Event()
    door = open_door()

    async def slow(*_: object) -> dict[str, str]:
        entered.set()
        await anyio.sleep(0.3)
        return {"kind": "run", "id": "run_1"}

    monkeypatch.setattr(FakeVerbs, "find", slow)
    answers = []
    asker = threading.Thread(target=lambda: answers.append(door.ask("GET", "/find/x")))
    asker.start()
    assert entered.wait(5)
    door.close()
    asker.join(5)
    assert [answer.status for answer in answers] == [200]
    late = dial(door.path)  # the socket belongs to who bound it, and still listens
    late.settimeout(0.2)
    with pytest.raises(TimeoutError):
        late.recv(1)
    late.close()


def test_the_end_does_not_wait_for_who_never_ends(open_door: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "GRACE_SEC", 0.2)
    entered = threading.Event()
    door = open_door()

    async def stuck(*_: object) -> None:
        entered.set()
        await anyio.sleep_forever()

    monkeypatch.setattr(FakeVerbs, "find", stuck)
    link = dial(door.path)
    link.sendall(b"GET /find/x HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert entered.wait(5)
    silent = dial(door.path)
    idle = dial(door.path)
    idle.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert idle.recv(1 << 16).startswith(b"HTTP/1.1 200 ")
    began = time.monotonic()
    door.close()
    assert time.monotonic() - began < 2
    for one in (link, silent, idle):
        read_all(one)
        one.close()


def test_a_burst_is_served(open_door: Open) -> None:
    door = open_door()
    links = [dial(door.path) for _ in range(60)]
    for link in links:
        link.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert all(read_all(link).startswith(b"HTTP/1.1 200 ") for link in links)
    for link in links:
        link.close()


def test_nothing_stays_open(open_door: Open) -> None:
    door = open_door()
    door.ask("GET", "/status")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(50):
        door.ask("GET", "/status")
        dial(door.path).close()
    deadline = time.monotonic() + 5
    while len(list(Path("/proc/self/fd").iterdir())) > before:
        assert time.monotonic() < deadline
