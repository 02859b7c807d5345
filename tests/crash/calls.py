"""SIGKILL, or an error, at the Nth system call that could change something: `strace` injects it, nothing else knows.

Where: in a first start, in a start that finds open runs, in a tower at work, in a keeper. strace counts each kind of
call in each thread by itself, so the first thread that comes to its Nth call of one kind is the one that is struck.
"""

from __future__ import annotations

import math
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from crash.factory import Client, Factory, Pump, factory, is_stopped, kill, wait_until
from crash.invariants import Findings, examine

FLUSH, NAMES = "fdatasync,fsync", "mkdir,unlink,unlinkat,rename,renameat,link,linkat"
WRITE, ROOM, FORK, TELL = "write", "ftruncate,fallocate", "clone,clone3,vfork,fork", "sendto,bind"

KILL = "signal=SIGKILL"

ERRORS = {
    "a full disk": ("write,pwrite64,fallocate,mkdir,mkdirat", "error=ENOSPC"),
    "a disk that fails to write": ("write,pwrite64", "error=EIO"),
    "a disk that fails to flush": ("fdatasync,fsync", "error=EIO"),
    "no descriptors": ("openat,accept4,socketpair,socket,pipe2,pidfd_open,dup", "error=EMFILE"),
    "no processes": ("clone,clone3,vfork,fork", "error=EAGAIN"),
}
"""Each as calls, and what becomes of them."""

FIRST_START, RESTART, WORK, KEEPER = "first start", "restart", "work", "keeper"
PLACES = (FIRST_START, RESTART, WORK, KEEPER)


KILLS = {
    FIRST_START: {"pwrite64": 96, FLUSH: 12, NAMES: 5, WRITE: 8, ROOM: 2, FORK: 4, TELL: 2},
    RESTART: {"pwrite64": 60, FLUSH: 14, NAMES: 8, WRITE: 14, ROOM: 2, FORK: 6, TELL: 12},
    WORK: {"pwrite64": 60, FLUSH: 16, NAMES: 12, WRITE: 24, FORK: 4, TELL: 40},
    KEEPER: {WRITE: 6, FLUSH: 5, NAMES: 6, ROOM: 3, FORK: 1, "sendto": 5},
}
"""Up to which call a thread comes there, about: what lies behind strikes nobody."""


@dataclass(frozen=True, slots=True)
class Strike:
    """At which call what happens where. `lasting`: at that call of a thread and the 30 that follow."""

    place: str
    calls: str
    number: int
    what: str = KILL
    name: str = "SIGKILL"
    lasting: bool = False

    @property
    def id(self) -> str:
        call = self.calls.partition(",")[0]
        return f"{self.name}-{self.place}-{call}-{self.number}{'-lasting' if self.lasting else ''}".replace(" ", "-")

    def arguments(self) -> list[str]:
        """For strace."""
        when = f"{self.number}..{self.number + 30}" if self.lasting else str(self.number)
        return [
            *("-f", "-qq", "-o", "/dev/null", "-e", f"trace={self.calls}", "-e", "signal=none"),
            *("-e", f"inject={self.calls}:{self.what}:when={when}"),
        ]


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one strike. `died`: the tower, or the keeper, was ended by it."""

    what: Strike
    findings: Findings
    died: bool
    failed: int
    """Flights that ended otherwise than well, with a reason."""
    seconds: float


@cache
def why_not() -> str | None:
    """Why this cannot be done here; None when it can."""
    strace = shutil.which("strace")
    if strace is None:
        return "strace is not installed"
    if os.geteuid() != 0:
        return "a tower and its keepers can only be traced by root"
    sleep = subprocess.Popen(["sleep", "60"])
    try:
        tracer = subprocess.Popen([strace, "-qq", "-o", "/dev/null", "-p", str(sleep.pid)], stderr=subprocess.PIPE)
        if wait_until(lambda: is_traced(sleep.pid) or tracer.poll() is not None, seconds=10) and tracer.poll() is None:
            return None
        return "strace cannot trace here"
    finally:
        sleep.kill()
        sleep.wait()
        _, _ = tracer.communicate(timeout=10)


def is_traced(pid: int) -> bool:
    try:
        return "TracerPid:\t0\n" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def play(strike: Strike) -> Result:
    """Let it strike, then go on without it, and look at what is left."""
    began = time.monotonic()
    tracers: list[subprocess.Popen[bytes]] = []
    with factory("read-only" if strike.number % 2 else "read-write") as made:
        try:
            client, died = PLAY[strike.place](made, strike, tracers)
            # What it could do it has done, or nobody came to that call.
            kill(made.tower_pid)
            assert made.process is not None
            made.process.wait(20)
            made.open_gate()
            made.must_serve()
            with Pump(made):
                unfinished = made.finish(client)
            client.leave()
        finally:
            for tracer in tracers:
                tracer.kill()
                tracer.wait()
        # Keepers that a traced tower has started are struck as well, each in its turn, until no recovery is left.
        may_fail = strike.what != KILL or strike.place in (FIRST_START, RESTART)
        findings = examine(made, client.acknowledged, unfinished, may_fail=may_fail)
        failed = made.count("outcome NOT IN ('succeeded')", "flights")
        if strike.place == KEEPER:
            died = made.count("outcome IN ('interrupted', 'refused')", "runs") > 0
    return Result(strike, findings, died, failed, time.monotonic() - began)


def _first_start(made: Factory, strike: Strike, _: list[subprocess.Popen[bytes]]) -> tuple[Client, bool]:
    made.open_gate()
    made.serve(prefix=["strace", "-D", *strike.arguments()])
    client = Client(made)
    return client, _work_goes_on(made, client)


def _restart(made: Factory, strike: Strike, _: list[subprocess.Popen[bytes]]) -> tuple[Client, bool]:
    """A tower that finds a run of an earlier one: at an even number its keeper lives, at an odd one it does not."""
    made.must_serve()
    client = Client(made)
    wait_until(lambda: bool(made.diary("began")))
    made.kill()
    if strike.number % 2:
        kill(*made.keepers())
    made.serve(prefix=["strace", "-D", *strike.arguments()])
    made.open_gate()
    return client, _work_goes_on(made, client)


def _at_work(made: Factory, strike: Strike, tracers: list[subprocess.Popen[bytes]]) -> tuple[Client, bool]:
    made.open_gate()
    made.must_serve()
    tracers.append(_trace(made.tower_pid, strike))
    client = Client(made)
    return client, _work_goes_on(made, client)


def _in_keeper(made: Factory, strike: Strike, tracers: list[subprocess.Popen[bytes]]) -> tuple[Client, bool]:
    """The keeper waits before its first deed until it is traced."""
    made.must_serve(environ={"TOWER_FAILPOINTS": "keeper.start-before=stop"})
    client = Client(made)
    wait_until(lambda: any(map(is_stopped, made.keepers())))
    (keeper,) = made.keepers()
    tracers.append(_trace(keeper, strike))
    made.open_gate()
    os.kill(keeper, signal.SIGCONT)
    with Pump(made):
        return client, _work_goes_on(made, client)


PLAY = {FIRST_START: _first_start, RESTART: _restart, WORK: _at_work, KEEPER: _in_keeper}


def _trace(pid: int, strike: Strike) -> subprocess.Popen[bytes]:
    """Trace a process and its threads, and none of the programs that it starts."""
    tracer = subprocess.Popen(["strace", "-b", "execve", *strike.arguments(), "-p", str(pid)])
    assert wait_until(lambda: is_traced(pid), seconds=10)
    return tracer


def _work_goes_on(made: Factory, client: Client) -> bool:
    """Until all is done, or the tower has ended (True); a fault may keep it from either for a while."""
    made.finish(client, seconds=4.0)
    return made.process is not None and made.process.poll() is not None


def kills(most: int) -> list[Strike]:
    """SIGKILL in each place at each kind of call, at `most` different ones of it."""
    return [
        Strike(place, calls, number)
        for place, kinds in KILLS.items()
        for calls, last in kinds.items()
        for number in spread(last, most)
    ]


def spread(last: int, most: int) -> list[int]:
    """At most so many numbers from 1 to `last`, evenly."""
    return list(range(1, last + 1, max(1, math.ceil(last / most))))


def errors(numbers: Sequence[int], *, lasting: bool) -> list[Strike]:
    """Each error at each of these numbers."""
    return [
        Strike(place, calls, number, what, name, lasting)
        for name, (calls, what) in ERRORS.items()
        for place in (RESTART, WORK, KEEPER)
        for number in numbers
    ]


def sample() -> list[Strike]:
    """A few of each, for every day."""
    return [
        Strike(FIRST_START, FLUSH, 4),
        Strike(RESTART, "pwrite64", 25),
        Strike(WORK, "pwrite64", 31),
        Strike(WORK, NAMES, 7),
        Strike(KEEPER, NAMES, 4),
        *(one for one in errors([2], lasting=False) if one.place == WORK and one.name != "no descriptors"),
    ]


def every() -> list[Strike]:
    """The full run."""
    some = [*kills(16), *errors([1, 2, 4, 8], lasting=False), *errors([1, 3], lasting=True)]
    return [*(one for one in sample() if one not in some), *some]


def table(results: Iterable[Result]) -> Iterator[str]:
    """A row for each fault and place."""
    groups: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        groups.setdefault((result.what.name, result.what.place), []).append(result)
    yield "| fault | place | points | struck dead | failed, and said so | lost | doubled | leaked | untrue | seconds |"
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for (name, place), found in groups.items():
        counts = [
            sum(len(getattr(one.findings, kind)) for one in found) for kind in ("lost", "doubled", "leaked", "untrue")
        ]
        dead, failed = sum(one.died for one in found), sum(one.failed for one in found)
        cells = [len(found), dead, failed, *counts, round(sum(one.seconds for one in found))]
        yield f"| {name} | {place} | {' | '.join(map(str, cells))} |"
