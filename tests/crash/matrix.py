"""The crash matrix: at each named point, who is there to be killed is killed; then the tower goes on.

Whoever passes the point stops itself there (SIGSTOP), the victims get SIGKILL, the others SIGCONT, and a dead tower is
started anew. `play` is one cell, `cells` all of them, `sample` each point once.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from crash.factory import Client, Factory, Pump, factory, is_stopped, kill, wait_until
from crash.invariants import Findings, examine
from tower.core.failpoint import KEEPER_NAMES, KEEPER_TURN_NAMES, NAMES

OF_KEEPERS = {*KEEPER_NAMES, *KEEPER_TURN_NAMES}
"""Points at which a keeper stops itself, and not the tower."""

TOWER, NURSERY, KEEPER, AGENT, ALL = "tower", "nursery", "keeper", "agent", "all"

PRESENT = {
    # The nursery forks keepers; at other points its end is noticed by nobody.
    "keeper.before": (TOWER, NURSERY),
    "keeper.after": (TOWER, NURSERY, KEEPER, AGENT),
    "keeper.recorded": (TOWER, KEEPER, AGENT),
    "keeper.start-before": (TOWER, KEEPER),
    "keeper.start-after": (TOWER, KEEPER),
    "keeper.forked": (TOWER, KEEPER, AGENT),
    # The program has ended by then; the agent is what it left behind.
    "keeper.exit-before": (TOWER, KEEPER, AGENT),
    "keeper.exit-after": (TOWER, KEEPER, AGENT),
    "keeper.swept": (TOWER, KEEPER),
}
"""Who exists at a point when it is passed for the first time; at all others it is the tower alone."""

BY_A_RUN = ("send.before-commit", "send.after-commit")
"""Points that are passed for a second time by the send of a run, at which all three exist."""

AFTER_THE_END = (*NAMES[NAMES.index("settle.before") :], *KEEPER_NAMES[KEEPER_NAMES.index("keeper.exit-before") :])
"""Points that are passed when the program of a run has ended."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One crash. `access` is that of the first agent; the second, along the route, has the other one."""

    point: str
    killed: str
    access: str
    passing: int = 1
    """At which passing of the point; the second one of a send is that of the agent."""
    times: int = 1
    """How often in a row: 2 kills the next tower again when it comes to the point."""

    def __str__(self) -> str:
        passing = f" (passing {self.passing})" if self.passing > 1 else ""
        return f"{self.point}{passing}"

    @property
    def who(self) -> str:
        return self.killed + (" twice" if self.times > 1 else "")

    @property
    def id(self) -> str:
        return f"{self}-{self.who}-{self.access}".replace(" ", "-")


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one crash."""

    what: Cell
    findings: Findings
    seconds: float
    reached: bool
    """Whether the point was passed at all; a crash that did not happen shows nothing."""


def victims_at(point: str, passing: int = 1) -> tuple[str, ...]:
    """Whom to kill at a point: each of those that exist, and all of them at once."""
    there = (TOWER, KEEPER, AGENT) if passing > 1 and point in BY_A_RUN else PRESENT.get(point, (TOWER,))
    return (*there, ALL) if len(there) > 1 else there


def cells() -> list[Cell]:
    """The full matrix."""
    points = [*NAMES, *KEEPER_NAMES]
    found = []
    for access in ("read-write", "read-only"):
        for point in points:
            found += [Cell(point, who, access) for who in victims_at(point)]
            found += [Cell(point, who, access, passing=2) for who in victims_at(point, 2)]
            if TOWER in victims_at(point):
                found.append(Cell(point, ALL if point in PRESENT else TOWER, access, times=2))
    return found


def sample(points: Sequence[str]) -> list[Cell]:
    """Each point once, the victims and the access in rotation; the sends of a run as well."""
    turns = itertools.count()
    access = itertools.cycle(("read-write", "read-only"))
    found = []
    for point in points:
        choice = victims_at(point)
        found.append(Cell(point, choice[next(turns) % len(choice)], next(access)))
    found += [Cell(point, ALL, next(access), passing=2) for point in points if point in BY_A_RUN]
    return found


def play(cell: Cell) -> Result:
    """Carry out one crash and look at what is left."""
    began = time.monotonic()
    with factory(cell.access) as made:
        if not _needs_a_living_agent(cell):
            made.open_gate()
        made.must_serve(environ={"TOWER_FAILPOINTS": f"{cell.point}=stop"})
        client = Client(made)
        reached = _crash(made, cell)
        for _ in range(cell.times - 1):
            made.open_gate()
            if made.process is not None and made.process.poll() is not None:
                made.serve(environ={"TOWER_FAILPOINTS": f"{cell.point}=stop"})
            # The work may be over by now, or the point behind it: then this is an ordinary restart.
            _crash(made, cell, seconds=2.0, first=False)
        if cell.access == "read-only":
            made.open_gate()
        if made.process is not None and made.process.poll() is not None:
            made.must_serve()
        made.open_gate()
        with Pump(made):
            unfinished = made.finish(client)
            client.leave()
            findings = examine(made, client.acknowledged, unfinished)
    return Result(cell, findings, time.monotonic() - began, reached)


def _needs_a_living_agent(cell: Cell) -> bool:
    """Whether agents wait at the gate until the crash: not where it comes after their end."""
    return cell.point in ("keeper.after", "keeper.recorded", "keeper.forked") or (
        cell.passing > 1 and cell.point not in AFTER_THE_END
    )


def _crash(made: Factory, cell: Cell, *, seconds: float = 20.0, first: bool = True) -> bool:
    """Wait for somebody to stop at the point and kill the victims; the others go on."""
    if not wait_at(made, cell.point, cell.passing if first else 1, seconds):
        return False
    chosen = (TOWER, NURSERY, KEEPER, AGENT) if cell.killed == ALL else (cell.killed,)
    if AGENT in chosen and AGENT in victims_at(cell.point, cell.passing) and first:
        wait_until(lambda: bool(made.diary("began")))
    pids = {
        TOWER: [made.tower_pid] if TOWER in chosen else [],
        NURSERY: made.nursery() if NURSERY in chosen else [],
        KEEPER: made.keepers() if KEEPER in chosen else [],
        AGENT: made.processes() if AGENT in chosen else [],
    }
    kill(*itertools.chain.from_iterable(pids.values()))
    if TOWER in chosen:
        assert made.process is not None
        made.process.wait()
    go_on(made)
    return True


def wait_at(made: Factory, point: str, passing: int, seconds: float) -> bool:
    """Wait until somebody stops at the point for the so-manieth time; whoever did so before goes on."""
    give_up = time.monotonic() + seconds
    passed: set[int] = set()
    while time.monotonic() < give_up:
        stopped = [pid for pid in (made.keepers() if point in OF_KEEPERS else [made.tower_pid]) if is_stopped(pid)]
        for pid in stopped:
            if pid in passed and point in OF_KEEPERS:
                continue
            passed.add(pid)
            passing -= 1
            if passing <= 0:
                return True
            os.kill(pid, signal.SIGCONT)
            wait_until(lambda pid=pid: not is_stopped(pid), seconds=0.2)
        time.sleep(0.005)
    return False


def go_on(made: Factory) -> None:
    """Wake whoever stopped at a point and was not killed."""
    for pid in [made.tower_pid, *made.keepers()]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def table(results: Iterable[Result]) -> Iterator[str]:
    """A row for each crash, as it comes."""
    yield "| point | killed | first agent | lost | doubled | leaked | untrue | seconds |"
    yield "|---|---|---|---|---|---|---|---|"
    for result in results:
        cell = result.what
        name = f"{cell}" if result.reached else f"{cell} (not reached)"
        counts = " | ".join(map(str, result.findings.counts()))
        yield f"| {name} | {cell.who} | {cell.access} | {counts} | {result.seconds:.1f} |"


def summary(results: Iterable[Result]) -> Iterator[str]:
    """A row for each point."""
    points: dict[str, list[Result]] = {}
    for result in results:
        points.setdefault(result.what.point, []).append(result)
    yield "| point | killed, each by itself and all at once | crashes | lost | doubled | leaked | untrue |"
    yield "|---|---|---|---|---|---|---|"
    for point, found in points.items():
        who = dict.fromkeys(one.what.killed for one in found if one.what.killed != ALL)
        counts = [sum(kind) for kind in zip(*(one.findings.counts() for one in found), strict=True)]
        yield f"| `{point}` | {', '.join(who)} | {len(found)} | {' | '.join(map(str, counts))} |"
