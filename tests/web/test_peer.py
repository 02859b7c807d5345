"""Who connected, by the kernel's word: real processes below a real subreaper, and every way out of it."""

import errno
import os
import resource
import select
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tower.system.keeper.ancestry import place_of
from tower.system.keeper.protocol import NAME
from tower.web import peer as peer_module
from tower.web.peer import Peer, read_peer

KEEPER = """
import ctypes, os, subprocess, sys
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
subprocess.Popen([sys.executable, "-I", "-S", "-c", sys.argv[1], sys.argv[2]], env={})
while True:
    try:
        os.wait()
    except ChildProcessError:
        break
"""

CALL = """
import os, socket, sys
def call():
    link = socket.socket(socket.AF_UNIX)
    link.connect(sys.argv[1])
    link.recv(1)
"""

WAYS = {
    "child": "call()",
    "grandchild": "os.fork() or call(); os.wait()",
    "own session": "os.fork() or (os.setsid(), call()); os.wait()",
    "double fork": "os.fork() or (os.setsid(), os.fork() or call(), os._exit(0)); os.wait()",
    "empty environment": "os.environ.clear(); call()",
    "another folder": "os.chdir('/'); call()",
}


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[socket.socket]:
    (tmp_path / "k").mkdir()
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(tmp_path / "tower.sock"))
        bound.listen()
        bound.settimeout(10)
        yield bound


def look(connection: socket.socket, tmp_path: Path, own_pid: int = 0) -> Peer:
    return read_peer(connection, str(tmp_path / "k"), own_pid)


def test_a_person(tmp_path: Path, listening: socket.socket) -> None:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(listening.getsockname())
        accepted, _ = listening.accept()
        with accepted:
            peer = look(accepted, tmp_path)
    assert (peer.pid, peer.uid) == (os.getpid(), os.geteuid())
    assert peer.groups == {os.getegid(), *os.getgroups()}
    assert peer.may_be_a_person
    assert not peer.starved


def keeper(tmp_path: Path, way: str, folder: Path | None = None) -> subprocess.Popen[bytes]:
    sockets = folder or tmp_path / "k"
    argv = [sys.executable, "-I", "-S", "-c", KEEPER, CALL + WAYS[way], str(tmp_path / "tower.sock")]
    return subprocess.Popen([*argv, NAME, str(sockets), "run_7", place_of(str(sockets))], stdin=subprocess.DEVNULL)


@pytest.mark.parametrize("way", list(WAYS))
def test_no_descendant_of_a_run_is_a_person(tmp_path: Path, listening: socket.socket, way: str) -> None:
    run = keeper(tmp_path, way)
    accepted, _ = listening.accept()
    with accepted:
        peer = look(accepted, tmp_path)
    run.wait(10)
    assert peer.run == "run_7"
    assert not peer.may_be_a_person


def test_a_run_of_another_tower_is_not_ours(tmp_path: Path, listening: socket.socket) -> None:
    (tmp_path / "other").mkdir()
    run = keeper(tmp_path, "child", tmp_path / "other")
    accepted, _ = listening.accept()
    with accepted:
        assert look(accepted, tmp_path).run is None
    run.wait(10)


def test_what_the_tower_started_or_inherited_is_no_person(tmp_path: Path, listening: socket.socket) -> None:
    child = subprocess.Popen([sys.executable, "-I", "-S", "-c", CALL + "call()", str(tmp_path / "tower.sock")])
    accepted, _ = listening.accept()
    with accepted:
        peer = look(accepted, tmp_path, own_pid=os.getpid())
        assert look(accepted, tmp_path).may_be_a_person
    child.wait(10)
    assert peer.doubt == "the tower itself has started or inherited it"


def test_a_peer_that_has_ended_is_no_person(tmp_path: Path, listening: socket.socket) -> None:
    """It connected, left its descriptor to nobody, and ended; its number may be anybody's by now."""
    code = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])"
    subprocess.run([sys.executable, "-I", "-S", "-c", code, str(tmp_path / "tower.sock")], check=True)
    accepted, _ = listening.accept()
    with accepted:
        peer = look(accepted, tmp_path)
    assert peer.doubt is not None
    assert not peer.may_be_a_person


def test_a_number_that_another_process_has_by_now(
    tmp_path: Path, listening: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run's process has ended and its pid is a person's: only the kernel's handle tells."""
    run = keeper(tmp_path, "child")
    accepted, _ = listening.accept()
    with accepted:
        run.kill()
        run.wait(10)
        caller = int.from_bytes(accepted.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 4), sys.byteorder)
        handle = os.pidfd_open(caller)
        os.kill(caller, 9)
        ended, _, _ = select.select([handle], [], [], 10)
        os.close(handle)
        assert ended
        monkeypatch.setattr("tower.web.peer.run_above", lambda *_: None)
        monkeypatch.setattr("tower.web.peer.procfs.ancestors", lambda _: [1])
        assert look(accepted, tmp_path).doubt == "it has ended"


@pytest.mark.parametrize(
    ("number", "doubt"), [(errno.ESRCH, "it has ended"), (errno.EINVAL, "it has ended"), (errno.ENOPROTOOPT, None)]
)
def test_kernels_that_give_no_handle(tmp_path: Path, listening: socket.socket, number: int, doubt: str | None) -> None:
    class Accepted(socket.socket):
        def getsockopt(self, level: int, option: int, *size: int) -> bytes | int:  # type: ignore[override]
            if option == peer_module.SO_PEERPIDFD:
                raise OSError(number, os.strerror(number))
            return super().getsockopt(level, option, *size)

    with socket.socket(socket.AF_UNIX) as client:
        client.connect(listening.getsockname())
        accepted, _ = listening.accept()
        with Accepted(fileno=accepted.detach()) as connection:
            assert look(connection, tmp_path).doubt == doubt


def test_of_another_container(tmp_path: Path, listening: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tower.web.peer.procfs.peer_credentials", lambda _: (0, os.geteuid(), os.getegid()))
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(listening.getsockname())
        accepted, _ = listening.accept()
        with accepted:
            peer = look(accepted, tmp_path)
    assert "another container" in (peer.doubt or "")


def test_without_descriptors_nobody_is_judged(tmp_path: Path, listening: socket.socket) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(listening.getsockname())
        accepted, _ = listening.accept()
        with accepted:
            # Below every descriptor that is open: none can be opened, as if all were in use.
            resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
            try:
                peer = look(accepted, tmp_path)
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert peer.starved
    assert not peer.may_be_a_person


def test_looking_leaves_nothing_open(tmp_path: Path, listening: socket.socket) -> None:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(listening.getsockname())
        accepted, _ = listening.accept()
        with accepted:
            before = os.listdir("/proc/self/fd")
            for _ in range(10):
                look(accepted, tmp_path)
            assert os.listdir("/proc/self/fd") == before
