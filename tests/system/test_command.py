"""A bounded command: told what it is given, ended when its time is over, and never leaving anything behind."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import anyio
import pytest

from tower.system import procfs
from tower.system.command import run_bounded

pytestmark = pytest.mark.anyio
ENV = {"PATH": os.environ["PATH"]}


async def test_it_gets_what_it_is_given_and_only_its_environment(tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = ["sh", "-c", f"cat > {out}; env | cut -d= -f1 | grep -v -e PWD -e SHLVL -e _ >> {out}"]
    assert await run_bounded(command, given=b"x" * 200_000 + b"\n", env=ENV, seconds=10) is None
    assert out.read_bytes() == b"x" * 200_000 + b"\nPATH\n"


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["/nowhere/at/all"], "cannot be started"),
        (["false"], "exit code 1"),
        (["sh", "-c", "kill -9 $$"], "exit code -9"),
    ],
)
async def test_what_goes_wrong_is_said(argv: list[str], said: str) -> None:
    assert said in (await run_bounded(argv, given=b"", env=ENV, seconds=10) or "")


def assert_soon_gone(mark: bytes) -> None:
    """Killed processes take a moment to be gone."""
    deadline = time.monotonic() + 10
    while any(mark in procfs.environ(pid) and not procfs.is_zombie(pid) for pid in procfs.processes()):
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("cancelled", [False, True])
async def test_past_its_time_or_when_cancelled_nothing_of_it_is_left(tmp_path: Path, cancelled: bool) -> None:
    mark = f"mark-{os.getpid()}-{cancelled}"
    command = [sys.executable, "-c", "import subprocess; subprocess.run(['sleep', '600'])", mark]
    with anyio.move_on_after(0.3 if cancelled else 10) as scope:
        problem = await run_bounded(command, given=b"", env=ENV | {"MARK": mark}, seconds=10 if cancelled else 0.3)
        assert "longer than 0.3 s" in (problem or "")
    assert scope.cancelled_caught is cancelled
    assert_soon_gone(f"MARK={mark}".encode())
