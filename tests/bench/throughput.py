"""Trivial flights from the first send to the last one landed, beside other ways to get so many programs run."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from . import machine, served
from .clients import flight, post_all
from .references import installed
from .table import Row, compared

JOBS: Final = 1000
"""Spread over the rounds."""

ROUNDS: Final = 5
AT_ONCE: Final = 32

AGENT: Final = '[agents.trivial]\nrunner = "cmd:true"\nprompt = "Succeed."\nentry = true\n'
DEFAULTS: Final = f'max_concurrent_runs = {AT_ONCE}\nwriters = "shared"'


def measure(*, tiny: bool = False) -> list[Row]:
    """One row for each reference."""
    rounds, jobs = (1, 10) if tiny else (ROUNDS, JOBS // ROUNDS)
    ours: list[float] = []
    with (
        machine.folder() as folder,
        served.tower(folder, AGENT, defaults=DEFAULTS) as tower,
        installed(folder, AT_ONCE) as references,
    ):
        theirs: list[list[float]] = [[] for _ in references]
        _fly(tower, AT_ONCE)
        for _ in range(rounds):
            ours.append(_rate(lambda count: _fly(tower, count), jobs))
            for figures, reference in zip(theirs, references, strict=True):
                if reference.run:
                    figures.append(_rate(reference.run, jobs))
        _check(tower, rounds * jobs + AT_ONCE)
    what = f"throughput, {AT_ONCE} at a time"
    return [
        compared(what, ours, figures, unit="jobs/s", reference=reference.name, at_least=reference.reach)
        if reference.run
        else Row(what=what, ours="not compared", reference=f"{reference.name}: not installed")
        for figures, reference in zip(theirs, references, strict=True)
    ]


def _rate(way: Callable[[int], None], jobs: int) -> float:
    began = time.perf_counter()
    way(jobs)
    return jobs / (time.perf_counter() - began)


def _fly(tower: served.Served, count: int) -> None:
    requests = [flight("trivial", f"number {number}") for number in range(count)]
    post_all(str(tower.socket), requests, clients=AT_ONCE)
    tower.until_quiet()


def _check(tower: served.Served, sent: int) -> None:
    """A rate counts only when every flight did what it was to do."""
    flights = tower.ask("GET", "/flights?limit=10000")["flights"]
    succeeded = sum(one["outcome"] == "succeeded" for one in flights)
    if succeeded != sent:
        raise RuntimeError(f"of {sent} flights {succeeded} have succeeded")
