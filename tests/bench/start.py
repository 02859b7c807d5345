"""How long an idle tower takes from being asked to the program's first doing, beside a shell started by subprocess.

Both programs are the same shell, whose first doing is a line into a pipe that is read here: one clock for both ends.
The tower's time begins before the request is written, so it holds the request and the commit as well.
"""

from __future__ import annotations

import os
import subprocess
import time
from typing import Final

from . import machine, served
from .table import Row, compared

ROUNDS: Final = 40
AT_MOST: Final = 20.0
"""A fifth of what the cheapest real agent takes to start by itself."""


def measure(*, tiny: bool = False) -> list[Row]:
    """The medians over single starts that take turns."""
    ours: list[float] = []
    theirs: list[float] = []
    with machine.folder() as folder:
        pipe = folder / "up"
        os.mkfifo(pipe)
        script = f"echo >{pipe}"
        agent = f'[agents.up]\nrunner = "cmd:{script}"\nprompt = "Say that you are up."\nentry = true\n'
        # Open for writing too, so that the shell never waits for a reader and a read never meets an end.
        reader = os.open(pipe, os.O_RDWR)
        try:
            with served.tower(folder, agent) as tower:
                for _ in range(2 if tiny else ROUNDS):
                    ours.append(_by_tower(tower, reader))
                    theirs.append(_by_subprocess(script, reader))
        finally:
            os.close(reader)
    what = "start of one run: asked to program running, idle, p50"
    return [compared(what, ours, theirs, unit="ms", reference="sh -c by subprocess", at_most=AT_MOST)]


def _by_tower(tower: served.Served, reader: int) -> float:
    """Milliseconds; the run is over when this returns."""
    began = time.perf_counter()
    tower.send("up")
    os.read(reader, 1)
    took = time.perf_counter() - began
    tower.until_quiet()
    return took * 1e3


def _by_subprocess(script: str, reader: int) -> float:
    """Milliseconds."""
    began = time.perf_counter()
    with subprocess.Popen(["/bin/sh", "-c", script], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL):
        os.read(reader, 1)
        return (time.perf_counter() - began) * 1e3
