"""The control socket's path: who may bind it, what is removed, and what never is."""

import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tower.core.errors import BusyError, InvalidError
from tower.system import listener
from tower.system.listener import Listener, listen
from tower.system.lock import StateLock, lock_state

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")


@pytest.fixture
def lock(tmp_path: Path) -> Iterator[StateLock]:
    tmp_path.chmod(0o700)
    with lock_state(tmp_path) as held:
        yield held


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def connects(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(str(path))
        except OSError:
            return False
    return True


def test_only_its_owner_can_reach_it(tmp_path: Path, lock: StateLock) -> None:
    bound = listen(tmp_path / "run" / "tower.sock", lock)
    assert mode(bound.path) == 0o600
    assert mode(bound.path.parent) == 0o700
    assert connects(bound.path)
    bound.close()
    assert not bound.path.exists()


@root_only
def test_another_user_cannot_connect(lock: StateLock) -> None:
    with tempfile.TemporaryDirectory() as open_to_all:
        Path(open_to_all).chmod(0o755)  # the socket's own mode must be enough
        bound = listen(Path(open_to_all) / "tower.sock", lock)
        code = """
import os, socket, sys
os.setgroups([])
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)
socket.socket(socket.AF_UNIX).connect(sys.argv[1])
"""
        argv = [sys.executable, "-I", "-S", "-c", code, str(bound.path)]
        refused = subprocess.run(argv, capture_output=True, text=True)
        bound.close()
    assert "PermissionError" in refused.stderr


@root_only
def test_a_group_may_be_let_in(tmp_path: Path, lock: StateLock) -> None:
    bound = listen(tmp_path / "run" / "tower.sock", lock, group="nogroup")
    assert mode(bound.path) == 0o660
    assert mode(bound.path.parent) == 0o750
    assert bound.path.stat().st_gid == bound.path.parent.stat().st_gid == 65534
    bound.close()
    os.chown(bound.path.parent, -1, 12345)  # as it was for the group before
    bound = listen(tmp_path / "run" / "tower.sock", lock, group="nogroup")
    assert bound.path.parent.stat().st_gid == 65534
    bound.close()


def test_an_unknown_group(tmp_path: Path, lock: StateLock) -> None:
    with pytest.raises(InvalidError, match="no such group"):
        listen(tmp_path / "tower.sock", lock, group="no-such-group-here")


def test_the_mode_is_right_from_the_first_moment(tmp_path: Path, lock: StateLock) -> None:
    path = tmp_path / "tower.sock"
    seen: set[int] = set()
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            try:
                seen.add(mode(path))
            except FileNotFoundError:
                continue

    watcher = threading.Thread(target=look)
    watcher.start()
    for _ in range(200):
        listen(path, lock).close()
    done.set()
    watcher.join()
    assert seen <= {0o600}


def test_the_umask_comes_back(tmp_path: Path, lock: StateLock) -> None:
    before = os.umask(0o027)
    try:
        listen(tmp_path / "tower.sock", lock).close()
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(before)


SERVE = """
import sys, time
from pathlib import Path
from tower.system.listener import listen
from tower.system.lock import lock_state
lock = lock_state(Path(sys.argv[1]))
bound = listen(Path(sys.argv[2]), lock)
print("listening", flush=True)
sys.stdin.read()
"""


def serve(state: Path, path: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", SERVE, str(state), str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "listening\n"
    return process


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def identity(path: Path) -> tuple[int, int, int, int]:
    """Which file it is and that nobody changed it; when it was last read may move, a knock at a socket does that."""
    found = path.lstat()
    return found.st_ino, found.st_mode, found.st_mtime_ns, found.st_ctime_ns


def test_what_a_killed_tower_left_is_in_nobodys_way(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    for _ in range(3):
        end(serve(state, state / "tower.sock"))
        assert (state / "tower.sock").is_socket()
    with lock_state(state) as lock:
        bound = listen(state / "tower.sock", lock)
        assert connects(bound.path)
        bound.close()


@pytest.mark.parametrize("frozen", [False, True])
def test_a_living_tower_of_another_folder_is_never_taken_over(tmp_path: Path, lock: StateLock, frozen: bool) -> None:
    other = tmp_path / "other"
    other.mkdir()
    path = tmp_path / "run" / "tower.sock"
    process = serve(other, path)
    if frozen:
        process.send_signal(signal.SIGSTOP)
    before = identity(path)
    with pytest.raises(BusyError, match=f"process {process.pid} listens there"):
        listen(path, lock)
    assert identity(path) == before
    process.send_signal(signal.SIGCONT)
    assert connects(path)
    end(process)


def test_a_full_backlog_is_life(tmp_path: Path, lock: StateLock) -> None:
    path = tmp_path / "tower.sock"
    with socket.socket(socket.AF_UNIX) as busy:
        busy.bind(str(path))
        busy.listen(0)
        with socket.socket(socket.AF_UNIX) as waiting:
            waiting.connect(str(path))
            with pytest.raises(BusyError, match="full backlog"):
                listen(path, lock)


def test_two_that_start_at_once_on_one_path(tmp_path: Path) -> None:
    """Towers of different state folders: their locks do not meet, the path does."""
    code = """
import sys
from pathlib import Path
from tower.core.errors import BusyError
from tower.system.listener import listen
from tower.system.lock import lock_state
lock = lock_state(Path(sys.argv[1]))
for line in sys.stdin:
    try:
        bound = listen(Path(line.rstrip()), lock)
        print("bound", flush=True)
    except BusyError:
        print("busy", flush=True)
"""
    run = tmp_path / "run"
    run.mkdir(mode=0o700)
    towers = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        towers.append(
            subprocess.Popen(
                [sys.executable, "-c", code, str(tmp_path / name)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        )
    for number in range(30):
        path = run / f"{number}.sock"
        with socket.socket(socket.AF_UNIX) as stale:
            stale.bind(str(path))
        for process in towers:
            assert process.stdin is not None
            process.stdin.write(f"{path}\n")
            process.stdin.flush()
        answers = sorted(process.stdout.readline() for process in towers if process.stdout)
        assert answers == ["bound\n", "busy\n"]
    for process in towers:
        end(process)


def test_the_state_folder_of_another_tower(tmp_path: Path, lock: StateLock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "LOCK_PAUSE_SEC", 0.0)
    other = tmp_path / "other"
    other.mkdir(mode=0o700)
    with lock_state(other), pytest.raises(BusyError, match="state folder of another tower"):
        listen(other / "tower.sock", lock)


def test_a_file_in_its_place_is_kept(tmp_path: Path, lock: StateLock) -> None:
    path = tmp_path / "tower.sock"
    path.write_text("precious")
    with pytest.raises(InvalidError, match="something else than a socket"):
        listen(path, lock)
    assert path.read_text() == "precious"


def test_another_towers_socket_is_not_removed_at_the_end(tmp_path: Path, lock: StateLock) -> None:
    path = tmp_path / "tower.sock"
    ours = listen(path, lock)
    path.rename(tmp_path / "moved")
    theirs = listen(path, lock)
    ours.close()
    assert connects(path)
    theirs.close()


def test_a_folder_in_which_others_write(tmp_path: Path, lock: StateLock) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    with pytest.raises(InvalidError, match="others may write there"):
        listen(shared / "tower.sock", lock)


def long_path(tmp_path: Path) -> Path:
    deep = tmp_path / ("d" * 60) / ("e" * 60)
    assert len(str(deep)) > 107
    return deep / "tower.sock"


def dial(path: Path) -> None:
    """Connect the way that clients do when a path is too long for an address."""
    folder = os.open(path.parent, os.O_PATH)
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(f"/proc/self/fd/{folder}/{path.name}")
    os.close(folder)


def test_a_path_that_is_too_long_for_an_address(tmp_path: Path, lock: StateLock) -> None:
    path = long_path(tmp_path)
    first = listen(path, lock)
    dial(path)
    with pytest.raises(BusyError, match="listens there"):
        listen(path, lock)
    first.close()
    assert not path.exists()
    with socket.socket(socket.AF_UNIX) as stale:
        folder = os.open(path.parent, os.O_PATH)
        stale.bind(f"/proc/self/fd/{folder}/{path.name}")
        os.close(folder)
    second = listen(path, lock)
    dial(path)
    second.close()


def test_a_name_that_no_address_holds(tmp_path: Path, lock: StateLock) -> None:
    with pytest.raises(InvalidError, match="cannot listen at"):
        listen(tmp_path / ("n" * 200), lock)


def test_a_file_system_without_sockets(lock: StateLock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Refusing(socket.socket):
        def bind(self, address: object) -> None:
            raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(listener.socket, "socket", Refusing)
    with pytest.raises(InvalidError, match=r"its file system has no sockets.*\[layover\] socket"):
        listen(tmp_path / "tower.sock", lock)
    assert not (tmp_path / "tower.sock").exists()


def test_a_failure_after_binding_leaves_no_path(
    tmp_path: Path, lock: StateLock, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full(socket.socket):
        def listen(self, backlog: int = 0) -> None:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(listener.socket, "socket", Full)
    with pytest.raises(BusyError, match="no space left"):
        listen(tmp_path / "tower.sock", lock)
    assert not (tmp_path / "tower.sock").exists()


def test_nobody_else_inherits_it(tmp_path: Path, lock: StateLock) -> None:
    bound: Listener = listen(tmp_path / "tower.sock", lock)
    assert not os.get_inheritable(bound.socket.fileno())
    bound.close()
