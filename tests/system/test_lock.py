"""One tower on one state folder: by the kernel's word, whatever is removed, renamed or killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tower.core.errors import BusyError, InvalidError
from tower.system.lock import lock_state

HOLD = """
import sys
from pathlib import Path
from tower.core.errors import BusyError
from tower.system.lock import lock_state
sys.stdin.read(1)
try:
    lock = lock_state(Path(sys.argv[1]))
except BusyError as error:
    print("busy", error, flush=True)
else:
    print("held", flush=True)
    sys.stdin.read()
"""


def contender(folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("x")
    process.stdin.flush()


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def end(*processes: subprocess.Popen[str]) -> None:
    for process in processes:
        process.kill()
        process.communicate()


def test_the_second_hears_who_holds_it(tmp_path: Path) -> None:
    first = contender(tmp_path)
    go(first)
    assert said(first) == "held\n"
    with pytest.raises(BusyError) as refused:
        lock_state(tmp_path)
    assert refused.value.code == "locked"
    assert f"process {first.pid} (" in refused.value.sentence
    assert str(tmp_path) in refused.value.sentence
    end(first)


def test_a_stopped_holder_is_a_holder(tmp_path: Path) -> None:
    first = contender(tmp_path)
    go(first)
    assert said(first) == "held\n"
    first.send_signal(signal.SIGSTOP)
    with pytest.raises(BusyError):
        lock_state(tmp_path)
    first.send_signal(signal.SIGCONT)
    end(first)


def test_a_killed_holder_leaves_nothing_stale(tmp_path: Path) -> None:
    for _ in range(3):
        first = contender(tmp_path)
        go(first)
        assert said(first) == "held\n"
        end(first)
    lock_state(tmp_path).release()


def test_of_two_that_race_exactly_one_wins(tmp_path: Path) -> None:
    """A hundred times two starts at the same moment, on a fresh folder each time."""
    race = """
import sys, time
from pathlib import Path
from tower.core.errors import BusyError
from tower.system.lock import lock_state
held = []
for line in sys.stdin:
    moment, folder = line.split(maxsplit=1)
    while time.monotonic() < float(moment):
        pass
    try:
        held.append(lock_state(Path(folder.rstrip())))
        print("held", flush=True)
    except BusyError:
        print("busy", flush=True)
"""
    pair = [
        subprocess.Popen([sys.executable, "-c", race], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    for number in range(100):
        folder = tmp_path / str(number)
        folder.mkdir()
        moment = time.monotonic() + (0.003 if number else 0.5)
        for process in pair:
            assert process.stdin is not None
            process.stdin.write(f"{moment} {folder}\n")
            process.stdin.flush()
        assert sorted(said(process) for process in pair) == ["busy\n", "held\n"]
    end(*pair)


def test_removing_what_is_in_the_folder_lets_nobody_in(tmp_path: Path) -> None:
    (tmp_path / "lock").touch()
    with lock_state(tmp_path):
        for path in tmp_path.iterdir():
            path.unlink()
        with pytest.raises(BusyError):
            lock_state(tmp_path)


def test_a_folder_replaced_under_the_holder_is_noticed(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    folder.mkdir()
    (tmp_path / "link").symlink_to(folder)
    with lock_state(folder) as lock:
        assert lock.covers(folder)
        assert lock.covers(tmp_path / "link")
        folder.rename(tmp_path / "moved")
        assert not lock.covers(folder)
        folder.mkdir()
        assert not lock.covers(folder)


def test_no_child_inherits_it(tmp_path: Path) -> None:
    with lock_state(tmp_path):
        child = subprocess.Popen(["sleep", "60"], close_fds=False)
    lock_state(tmp_path).release()
    child.kill()
    child.wait()


def test_released_twice(tmp_path: Path) -> None:
    lock = lock_state(tmp_path)
    lock.release()
    before = os.open(tmp_path, os.O_RDONLY)
    lock.release()
    os.fstat(before)
    os.close(before)


def test_what_cannot_be_locked_says_so(tmp_path: Path) -> None:
    with pytest.raises(InvalidError, match="no such file"):
        lock_state(tmp_path / "missing")
    (tmp_path / "file").touch()
    with pytest.raises(InvalidError, match="not a directory"):
        lock_state(tmp_path / "file")
