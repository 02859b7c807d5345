"""What throughput is compared with: programs that run others, as many at a time as the tower."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

TRUE: Final = shutil.which("true") or "/bin/true"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """`run` starts so many trivial programs and returns when all have ended; None when it is not installed."""

    name: str
    run: Callable[[int], None] | None
    reach: float | None = None
    """How many times its rate a tower should have."""


@contextmanager
def installed(folder: Path, at_once: int) -> Iterator[list[Reference]]:
    """All references, with their files in `folder`; those that serve are ended afterwards."""
    shell = _Shell(folder)
    has_parallel, has_spooler = bool(shutil.which("parallel")), bool(shutil.which("tsp"))
    parallel = _fed(shell, f"parallel --will-cite -j{at_once} {TRUE}")
    try:
        if has_spooler:
            shell(f"tsp -S {at_once}")
        yield [
            Reference(name="GNU parallel", run=parallel if has_parallel else None, reach=1.0),
            Reference(name="task-spooler", run=_spooler(shell) if has_spooler else None, reach=1.0),
            Reference(name="xargs -P", run=_fed(shell, f"xargs -P{at_once} -n1 {TRUE}")),
            _bare_loop(folder, at_once),
        ]
    finally:
        if has_spooler:
            shell("tsp -K")


class _Shell:
    """Runs a script, with everything that its programs keep in one folder."""

    def __init__(self, folder: Path) -> None:
        home = str(folder)
        self.environ = os.environ | {"HOME": home, "TMPDIR": home, "TS_SOCKET": f"{home}/tsp", "TS_MAXFINISHED": "5"}

    def __call__(self, script: str) -> None:
        subprocess.run(["sh", "-c", script], env=self.environ, check=True, stdout=subprocess.DEVNULL)


def _fed(shell: _Shell, command: str) -> Callable[[int], None]:
    """A command that takes its jobs from standard input."""
    return lambda count: shell(f"seq {count} | {command}")


def _spooler(shell: _Shell) -> Callable[[int], None]:
    """A queue like ours: each job is handed over by a process of its own. `-w` waits for one of those that run."""

    def run(count: int) -> None:
        for _ in range(count):
            subprocess.run(["tsp", TRUE], env=shell.environ, check=True, stdout=subprocess.DEVNULL)
        shell("while tsp -l | grep -qwE 'running|queued'; do tsp -w; done")

    return run


def _bare_loop(folder: Path, at_once: int) -> Reference:
    """The least that it can cost; in C where there is a compiler."""
    compiler, program = shutil.which("cc"), folder / "spawn"
    if compiler is None:
        return Reference(name="posix_spawn in Python (no C compiler)", run=lambda count: _spawn(count, at_once))
    subprocess.run([compiler, "-O2", "-o", program, Path(__file__).with_name("spawn.c")], check=True)
    return Reference(name="posix_spawn in C", run=lambda count: _run(str(program), str(count), str(at_once), TRUE))


def _run(*command: str) -> None:
    subprocess.run(command, check=True)


def _spawn(count: int, at_once: int) -> None:
    alive: deque[int] = deque()
    for _ in range(count):
        if len(alive) == at_once:
            os.waitpid(alive.popleft(), 0)
        alive.append(os.posix_spawn(TRUE, [TRUE], os.environ))
    for pid in alive:
        os.waitpid(pid, 0)
