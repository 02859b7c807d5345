"""Memory and CPU of a tower that has nothing to do."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from . import machine, served
from .table import Row, bounded

SETTLE_SEC: Final = 2.0
LOOK_SEC: Final = 15.0
"""The slowest clock of an idle tower that does anything, the sign of life of its runs, strikes once in this time."""

UNDER_MB: Final = 110.0
UNDER_PERCENT: Final = 0.3

AGENT: Final = '[agents.some]\nrunner = "cmd:true"\nprompt = "Succeed."\nentry = true\n'


def measure(*, tiny: bool = False) -> list[Row]:
    """After one flight, so that all that is loaded at first use is there."""
    settle, look = (0.0, 0.2) if tiny else (SETTLE_SEC, LOOK_SEC)
    with machine.folder() as folder, served.tower(folder, AGENT) as tower:
        tower.send("some")
        tower.until_quiet()
        time.sleep(settle)
        pid = tower.process.pid
        before, began = _cpu(pid), time.perf_counter()
        time.sleep(look)
        percent = (_cpu(pid) - before) / (time.perf_counter() - began) * 100
        memory = _resident(pid)
    return [
        bounded("idle tower: memory (RSS)", memory, unit="MB", under=UNDER_MB),
        bounded(f"idle tower: CPU over {look:.0f} s", percent, unit="% of a core", under=UNDER_PERCENT),
    ]


def _cpu(pid: int) -> float:
    """Seconds of all threads, to the nanosecond: the ticks of `stat` are coarser than what is looked for."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def _resident(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS:")).split()[1]) / 1024
