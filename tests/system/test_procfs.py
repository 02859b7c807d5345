"""What `/proc` says about processes, and what is made of it."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tower.system import prctl, procfs
from tower.system.keeping import ROOT


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


def test_a_process_is_known_by_pid_and_start(child: subprocess.Popen[bytes]) -> None:
    boot = procfs.boot_id()
    ticks = procfs.start_ticks(child.pid)
    assert ticks is not None
    assert len(boot) == 36
    assert procfs.is_same(child.pid, ticks, boot)
    assert not procfs.is_same(child.pid, ticks + 1, boot)
    assert not procfs.is_same(child.pid, ticks, "another boot")


def test_one_that_has_ended_is_gone_before_it_is_waited_for(child: subprocess.Popen[bytes]) -> None:
    ticks = procfs.start_ticks(child.pid) or 0
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert procfs.is_zombie(child.pid)
    assert not procfs.is_same(child.pid, ticks, procfs.boot_id())
    assert procfs.cmdline(child.pid) == []
    child.wait()
    assert procfs.start_ticks(child.pid) is None
    assert procfs.cmdline(child.pid) is None
    assert procfs.parent(child.pid) is None
    assert not procfs.is_zombie(child.pid)


@pytest.mark.parametrize("name", ["a) R 1 (b", "two words", "((("])
def test_a_name_that_looks_like_fields(tmp_path: Path, name: str) -> None:
    shutil.copy("/bin/sleep", tmp_path / name)
    with subprocess.Popen([tmp_path / name, "60"]) as process:
        assert procfs.parent(process.pid) == os.getpid()
        assert procfs.session(process.pid) == os.getsid(0)
        process.kill()


def test_ancestors_lead_to_the_first_process() -> None:
    line = procfs.ancestors(os.getpid())
    assert line is not None
    assert line[0] == os.getppid()
    assert procfs.parent(line[-1]) == 0
    assert procfs.ancestors(line[-1]) == []


def test_ancestors_of_nobody_cannot_be_told(child: subprocess.Popen[bytes]) -> None:
    child.kill()
    child.wait()
    assert procfs.ancestors(child.pid) is None


def test_ancestors_where_other_users_are_hidden() -> None:
    """The walk ends at a process of another user; one of the same user that is hidden leaves it untold."""
    root = Path(tempfile.mkdtemp(prefix="hidden-", dir="/tmp"))
    shutil.copytree(Path(ROOT, "tower/system"), root / "tower/system")
    for folder in (root, root / "tower"):
        folder.chmod(0o755)
    user = "setpriv --reuid=65534 --regid=65534 --clear-groups /usr/bin/python3 -I -S -c"
    see = f"import os, sys; sys.path.append('{root}'); from tower.system import prctl, procfs"
    other = f"{see}; print(procfs.ancestors(os.getpid()), os.getppid())"
    same = f"""{see}
prctl.make_undumpable()
if os.fork() == 0:
    print(procfs.ancestors(os.getpid()), flush=True)
else:
    os.wait()
"""
    hide = 'mount -t proc -o hidepid=2 proc /proc && $0 "$1"; $0 "$2"'.replace("$0", user)
    shown = subprocess.run(["unshare", "-m", "sh", "-c", hide, "x", other, same], capture_output=True, text=True)
    shutil.rmtree(root)
    if shown.returncode and not shown.stdout:
        pytest.skip(f"cannot be tried here: {shown.stderr}")
    first, second = shown.stdout.splitlines()
    line, above = first.rsplit(" ", 1)
    assert line == f"[{above}]"
    assert second == "None"


def test_descendants_are_all_that_is_below() -> None:
    script = "sleep 60 & sh -c 'sleep 60 & wait' & echo; wait"
    with subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, start_new_session=True) as process:
        while len(found := procfs.descendants(process.pid)) < 3:
            pass
        assert process.pid not in found
        assert {procfs.parent(pid) for pid in found} <= {process.pid, *found}
        assert set(found) <= set(procfs.descendants(os.getpid()))
        assert set(procfs.children(process.pid)) == set(found[:2])
        os.killpg(process.pid, signal.SIGKILL)
    assert procfs.descendants(process.pid) == []


def test_children_without_help_of_the_kernel(child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel may be built without the list of children."""
    read = procfs._read
    monkeypatch.setattr(procfs, "_read", lambda path: None if path.endswith("/children") else read(path))
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert child.pid in procfs.children(os.getpid())


def test_environment_and_arguments() -> None:
    """Both are empty for a moment while a program is being executed."""
    with subprocess.Popen([b"sleep", b"60.0"], env={b"A": b"b c", b"\xff": b"\xfe"}) as process:
        while not (environ := procfs.environ(process.pid)):
            assert process.poll() is None
        process.kill()
        assert environ == [b"A=b c", b"\xff=\xfe"]
    assert procfs.environ(process.pid) == []
    assert procfs.cmdline(os.getpid()) == sys.orig_argv


def test_who_is_at_the_other_end(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as client:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        code = "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); s.recv(1)"
        with subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "s")]) as process:
            connection, _ = listener.accept()
            with connection:
                assert procfs.peer_credentials(connection) == (process.pid, os.geteuid(), os.getegid())
        client.connect(str(tmp_path / "s"))
        assert procfs.peer_credentials(client)[0] == os.getpid()


def test_what_a_process_asks_about_itself() -> None:
    """In a process of its own: none of it can be taken back."""
    code = """
import os, time
from tower.system import prctl, procfs
me = os.getpid()
assert prctl.is_dumpable()
prctl.make_undumpable()
assert not prctl.is_dumpable()
assert not procfs.has_no_new_privs(me)
prctl.forbid_new_privileges()
assert procfs.has_no_new_privs(me)
prctl.become_subreaper()
if os.fork() == 0:
    if os.fork() == 0:
        for _ in range(5000):
            if os.getppid() == me:
                os._exit(7)
            time.sleep(0.001)
    os._exit(0)
assert os.wait()[1] == 0
assert os.waitstatus_to_exitcode(os.wait()[1]) == 7
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
    with pytest.raises(OSError, match="prctl"):
        prctl._prctl(9999, 0)
