"""`tower demo`, whole: a real tower, real git, real runs; and nothing of it left."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tower.cli import exits
from tower.cli.verbs.demo import LINE, SCRIBBLE

from .conftest import TOWER


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder for temporary files: short, since a socket lies in it; its name would trip up shells and TOML."""
    folder = Path(tempfile.mkdtemp(prefix="it's a $", dir="/tmp"))
    monkeypatch.setenv("TMPDIR", str(folder))
    # What a tower that is around would be found by, and must not matter.
    monkeypatch.setenv("TOWER_SOCKET", "/nowhere.sock")
    monkeypatch.setenv("TOWER_LAYOVER__STATE_DIR", "/nowhere")
    monkeypatch.setenv("STATE_DIRECTORY", "/nowhere")
    yield folder
    left = processes_under(folder)
    shutil.rmtree(folder)
    assert left == []


def processes_under(folder: Path) -> list[int]:
    """Pids of processes that work somewhere below a folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                where = (entry / "cwd").readlink()
            except OSError:
                continue
            if where.is_relative_to(folder):
                found.append(int(entry.name))
    return found


def test_a_flight_lands_and_nothing_is_left(place: Path) -> None:
    done = subprocess.run([*TOWER, "demo"], capture_output=True, text=True, check=False)
    assert done.returncode == exits.DONE, done.stderr
    assert "writer, in the live tree, was told:\n  | You are writer" in done.stdout
    assert "reviewer, in a snapshot of it, was told:\n  | You are reviewer" in done.stdout
    assert "The agent writer sent this" in done.stdout
    assert f"  | +{LINE}\n" in done.stdout
    assert "editor, in a snapshot of it, was told:\n  | You are editor" in done.stdout
    assert "in this order: writer, reviewer." in done.stdout
    assert done.stdout.count("\nyes  ") == 4
    assert "landed: 4 flights, 3 runs" in done.stderr
    assert list(place.iterdir()) == []


def test_what_is_kept_is_as_the_demonstration_said(place: Path) -> None:
    done = subprocess.run([*TOWER, "demo", "--keep"], capture_output=True, text=True, check=True)
    (kept,) = place.iterdir()
    assert str(kept) in done.stderr
    poem = (kept / "workspace" / "poem.txt").read_text()
    assert LINE in poem
    assert SCRIBBLE not in poem


def test_an_interrupt_takes_everything_away(place: Path) -> None:
    with subprocess.Popen([*TOWER, "demo"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 10
        while not list(place.glob("*/.layover")):  # its tower is up
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
    assert process.returncode == exits.INTERRUPTED
    assert "Traceback" not in err
    assert "tower wait" not in err
    assert list(place.iterdir()) == []


def test_a_demonstration_that_is_killed_takes_its_tower_along(place: Path) -> None:
    with subprocess.Popen([*TOWER, "demo"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 10
        while not list(place.glob("*/.layover/tower.sock")):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert processes_under(place)
        process.kill()
    deadline = time.monotonic() + 20
    while processes_under(place):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_tower_that_cannot_start_says_why(place: Path, tmp_path: Path) -> None:
    """Without git on the path there is no repository to show anything with."""
    environ = {**os.environ, "PATH": str(tmp_path)}
    done = subprocess.run([*TOWER, "demo"], capture_output=True, text=True, check=False, env=environ)
    assert done.returncode == exits.FAILED
    assert "cannot run git" in done.stderr
    assert list(place.iterdir()) == []


def test_a_temporary_folder_too_deep_for_a_socket_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = tmp_path / ("d" * 80)
    deep.mkdir()
    monkeypatch.setenv("TMPDIR", str(deep))
    done = subprocess.run([*TOWER, "demo"], capture_output=True, text=True, check=False)
    assert done.returncode == exits.DONE, done.stderr
    assert list(deep.iterdir()) == []
