import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tower.system.sdnotify import STATUS_BYTES, ServiceManager


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[socket.socket, str]]:
    name = str(tmp_path / "notify") if request.param == "path" else f"@tower-test-{os.getpid()}-{time.monotonic_ns()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.bind("\0" + name[1:] if name.startswith("@") else name)
        server.settimeout(5)
        yield server, name


def test_the_whole_life(manager: tuple[socket.socket, str]) -> None:
    server, name = manager
    tower = ServiceManager.from_variables({"NOTIFY_SOCKET": name}, os.getpid())

    def heard() -> list[str]:
        return server.recv(4096).decode().split("\n")

    assert tower.extend_timeout(90)
    assert heard() == ["EXTEND_TIMEOUT_USEC=90000000"]
    assert tower.ready("2 running, 3 queued")
    assert heard() == ["READY=1", "STATUS=2 running, 3 queued"]
    before = time.monotonic_ns() // 1000
    assert tower.reloading()
    first, stamp = heard()
    assert first == "RELOADING=1"
    assert before <= int(stamp.removeprefix("MONOTONIC_USEC=")) <= time.monotonic_ns() // 1000
    assert tower.ready()
    assert heard() == ["READY=1"]
    assert tower.watchdog()
    assert heard() == ["WATCHDOG=1"]
    assert tower.status("idle")
    assert heard() == ["STATUS=idle"]
    assert tower.stopping("waiting for 2 runs")
    assert heard() == ["STOPPING=1", "STATUS=waiting for 2 runs"]


@pytest.mark.parametrize(
    "hostile",
    [
        "layover.toml:3: bad\nMAINPID=1",
        "a\r\nb",
        "bell \x07 and \x1b[31mred\x1b[0m",
        "right to left \u202e",
        "half \ud800 a pair",
        "long " * 500,
        "ä" * 1000,
    ],
)
def test_a_status_is_one_plain_line(manager: tuple[socket.socket, str], hostile: str) -> None:
    server, name = manager
    assert ServiceManager(address=name).status(hostile)
    line = server.recv(65536).decode()
    assert line.startswith("STATUS=")
    assert line.isprintable()
    assert len(line.encode()) <= STATUS_BYTES + len("STATUS=")


@pytest.mark.parametrize(
    "variables", [{}, {"NOTIFY_SOCKET": ""}, {"NOTIFY_SOCKET": "@"}, {"NOTIFY_SOCKET": "vsock:2:1"}]
)
def test_without_a_manager_nothing_is_said(variables: dict[str, str]) -> None:
    tower = ServiceManager.from_variables(variables | {"WATCHDOG_USEC": "1000000"}, 1)
    assert tower == ServiceManager()
    assert not tower.ready("fine")


def test_a_manager_that_is_gone(tmp_path: Path) -> None:
    assert not ServiceManager(address=str(tmp_path / "nobody")).watchdog()


def test_a_manager_that_does_not_read_holds_nobody_up(manager: tuple[socket.socket, str]) -> None:
    _, name = manager
    tower = ServiceManager(address=name)
    began = time.monotonic()
    taken = 0
    while tower.watchdog():
        taken += 1
        assert taken < 100_000
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    ("variables", "seconds"),
    [
        ({"WATCHDOG_USEC": "30000000"}, 30.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "77"}, 30.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "78"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "-5"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
        ({}, None),
    ],
)
def test_the_watchdog_is_read_from_its_variables(variables: dict[str, str], seconds: float | None) -> None:
    tower = ServiceManager.from_variables(variables | {"NOTIFY_SOCKET": "/run/notify"}, 77)
    assert tower.watchdog_seconds == seconds
