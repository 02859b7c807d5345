"""A tower to ask, and ways to ask it: in this process, on pipes, and on a terminal."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from client.fake_tower import FakeTower

import tower
from tower.cli import run

PACKAGE = str(Path(tower.__file__).parents[1])
TOWER = (sys.executable, "-P", "-m", "tower")


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str


Cli = Callable[..., Result]


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder to stand in, and an environment that names no tower. Its path is short, as sockets need it."""
    for name in list(os.environ):
        if name.startswith(("TOWER_", "LAYOVER_", "XDG_", "NO_COLOR")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PYTHONPATH", PACKAGE)
    with tempfile.TemporaryDirectory(prefix="tc-") as folder:
        monkeypatch.chdir(folder)
        yield Path(folder)
        monkeypatch.undo()


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeTower]:
    """A tower that the environment names."""
    with FakeTower(tmp_path / "t.sock") as server:
        monkeypatch.setenv("TOWER_SOCKET", str(server.path))
        yield server


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    """Carry out a command line in this process, standard output and error captured (so: no terminal)."""

    def carry_out(*args: str) -> Result:
        code = run(args)
        out, err = capsys.readouterr()
        return Result(code, out, err)

    return carry_out


@pytest.fixture
def on_terminal() -> Cli:
    """Carry out a command line in a process of its own whose output and error are one terminal."""

    def carry_out(*args: str, **environ: str) -> Result:
        ours, theirs = pty.openpty()
        with subprocess.Popen(
            [*TOWER, *args],
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=theirs,
            env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", "TZ": "UTC", **environ},
        ) as process:
            os.close(theirs)
            seen = b""
            with suppress(OSError):  # a terminal whose other end is closed ends with EIO
                while piece := os.read(ours, 65536):
                    seen += piece
            os.close(ours)
        return Result(process.wait(), seen.decode(), "")

    return carry_out
