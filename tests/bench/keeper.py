"""What a keeper takes while its run lives, and how it ends a tree of which half has left its session."""

from __future__ import annotations

import os
import select
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from . import machine, served
from .table import Row, bounded, figure

LIVE: Final = 8
TREE: Final = 100
ROUNDS: Final = 5
UNDER_MB: Final = 4.0

PLANT: Final = Path(__file__).with_name("plant.py")

KEEPER_SEC: Final = 20.0
KILLPG_SEC: Final = 0.5
"""When nothing has ended for so long, nothing more will: a keeper goes through its limits, `killpg` is one call."""


def measure(*, tiny: bool = False) -> list[Row]:
    """Memory of each live run's keeper, and the end of a tree."""
    live, size, rounds = (2, 4, 1) if tiny else (LIVE, TREE, ROUNDS)
    with machine.folder() as folder:
        planted = folder / "planted"
        agents = (
            '[agents.waiter]\nrunner = "cmd:exec sleep 300"\nprompt = "Wait."\nentry = true\n'
            f'[agents.planter]\nrunner = "cmd:exec {sys.executable} {PLANT} {size} {planted}"\n'
            'prompt = "Plant."\nentry = true\n'
        )
        defaults = f'max_concurrent_runs = {live}\nwriters = "shared"'
        with served.tower(folder, agents, defaults=defaults) as tower:
            return [_memory(tower, live), _tree(tower, planted, size, rounds)]


def _memory(tower: served.Served, live: int) -> Row:
    what = f"keeper: memory (PSS) of each of {live}"
    for _ in range(live):
        tower.send("waiter")
    served.until(lambda: sum(run["state"] == "running" for run in _runs(tower)) == live)
    try:
        sizes = [_pss(pid) for pid in tower.keepers()]
    except PermissionError:
        return Row(what=what, ours="only root can read it", reach=f"under {UNDER_MB:g} MB")
    finally:
        _cancel(tower)
        tower.until_quiet()
    return bounded(what, statistics.median(sizes), unit="MB", under=UNDER_MB)


def _tree(tower: served.Served, planted: Path, size: int, rounds: int) -> Row:
    ours: list[tuple[float, int]] = []
    theirs: list[tuple[float, int]] = []
    for _ in range(rounds):
        planted.mkdir()
        tower.send("planter")
        ours.append(_end(planted, size, partial(_cancel, tower), KEEPER_SEC))
        tower.until_quiet()
        planted.mkdir()
        leader = subprocess.Popen([sys.executable, PLANT, str(size), planted], start_new_session=True)
        theirs.append(_end(planted, size, partial(os.killpg, leader.pid, signal.SIGTERM), KILLPG_SEC))
        leader.wait()
    left = max(count for _, count in ours)
    return Row(
        what=f"keeper: end a tree of {size}, half of it in sessions of its own",
        ours=_in_words(ours),
        reference=f"killpg: {_in_words(theirs)}",
        reach="0 left",
        reached=left == 0,
    )


def _end(planted: Path, size: int, end: Callable[[], None], patience: float) -> tuple[float, int]:
    """Seconds to the last end of a process, and how many did not end; those are killed here."""
    served.until(lambda: len(os.listdir(planted)) == size)
    alive = {os.pidfd_open(int(name)) for name in os.listdir(planted)}
    poll = select.poll()
    for fd in alive:
        poll.register(fd, select.POLLIN)
    began = ended = time.perf_counter()
    end()
    while alive and (ready := poll.poll(patience * 1e3)):
        ended = time.perf_counter()
        for fd, _ in ready:
            poll.unregister(fd)
            os.close(fd)
            alive.remove(fd)
    for fd in alive:
        signal.pidfd_send_signal(fd, signal.SIGKILL)
        os.close(fd)
    shutil.rmtree(planted)
    return ended - began, len(alive)


def _in_words(ends: list[tuple[float, int]]) -> str:
    left = max(count for _, count in ends)
    return f"{figure(statistics.median(seconds for seconds, _ in ends) * 1e3, 'ms')}, {left} left"


def _runs(tower: served.Served) -> list[dict[str, str]]:
    runs: list[dict[str, str]] = tower.ask("GET", "/runs")["runs"]
    return runs


def _cancel(tower: served.Served) -> None:
    for run in _runs(tower):
        tower.ask("POST", f"/runs/{run['id']}/cancel")


def _pss(pid: int) -> float:
    """Megabytes: what is its own, and its share of what it has in common with others."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("Pss:")).split()[1]) / 1024
