"""Process 1 of a pid namespace: what it reaps, what it passes on, and how it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tower.system import procfs
from tower.system.first_process import delegate_first_process

NAMESPACE = ["unshare", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"])]
NAMESPACE += ["--pid", "--fork", "--kill-child", "--mount-proc"]

BEGIN = """
import os, signal, sys, time
from tower.system.first_process import delegate_first_process
delegate_first_process()
assert os.getpid() != 1 and os.getppid() == 1
"""


def can_unshare() -> bool:
    try:
        return subprocess.run([*NAMESPACE, "true"], capture_output=True, timeout=10).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


pytestmark = pytest.mark.skipif(not can_unshare(), reason="this machine lets nobody make a pid namespace")


@contextmanager
def started(script: str) -> Iterator[subprocess.Popen[str]]:
    """A program as process 1 of a namespace of its own."""
    argv = [*NAMESPACE, sys.executable, "-c", BEGIN + script]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def first_process(outside: subprocess.Popen[str]) -> int:
    """Its pid as it is seen from here."""
    (pid,) = procfs.children(outside.pid)
    return pid


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_another_process_goes_on_as_it_is() -> None:
    pid = os.getpid()
    delegate_first_process()
    assert os.getpid() == pid


@pytest.mark.parametrize(
    ("script", "code"),
    [("sys.exit(0)", 0), ("sys.exit(78)", 78), ("os.kill(os.getpid(), signal.SIGKILL)", 128 + 9)],
)
def test_it_ends_as_the_program_ended(script: str, code: int) -> None:
    with started(script) as process:
        assert process.wait(20) == code


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGWINCH])
def test_a_signal_is_passed_on_once(number: signal.Signals) -> None:
    script = """
got = []
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGWINCH):
    signal.signal(number, lambda number, frame: got.append(int(number)))
print("ready", flush=True)
while not got:
    signal.pause()
time.sleep(0.1)  # a second one would come right behind
print(*got, flush=True)
"""
    with started(script) as process:
        assert said(process) == "ready"
        os.kill(first_process(process), number)
        assert said(process) == str(int(number))
        assert process.wait(20) == 0


def test_what_nobody_waits_for_is_reaped() -> None:
    script = """
for _ in range(50):
    if os.fork() == 0:
        for _ in range(4):
            if os.fork() == 0:
                os.setsid()
                os._exit(3)
        os._exit(0)
    os.wait()
deadline = time.monotonic() + 10
def others():
    return sorted({int(name) for name in os.listdir("/proc") if name.isdigit()} - {1, os.getpid()})
while others() and time.monotonic() < deadline:
    time.sleep(0.01)
print("left:", *others(), flush=True)
"""
    with started(script) as process:
        assert said(process) == "left:"
        assert process.wait(20) == 0


def test_the_program_waits_for_its_own_children_and_leads_a_session() -> None:
    script = """
import subprocess
print(subprocess.run(["sh", "-c", "exit 5"]).returncode, os.getsid(0) == os.getpid(), flush=True)
print(sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])), flush=True)
"""
    with started(script) as process:
        assert said(process) == "5 True"
        assert said(process) == "[]"
        assert process.wait(20) == 0
