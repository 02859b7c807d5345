"""Power cuts: the state folder lies on a disk that forgets what was not synced (`lossyfs`), and the power goes.

At the cut everything ends: the disk, the tower, the keepers, the agents. What agents did in the world outside stays
done; the diary lies elsewhere. Then the machine comes back with what the disk has kept.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from crash.factory import Client, Factory, factory, kill, wait_until
from crash.invariants import Findings, examine
from crash.matrix import KEEPER, victims_at, wait_at
from tower.core.failpoint import KEEPER_NAMES, NAMES

LOSSY = Path(__file__).with_name("lossyfs.py")

MANNERS = ("strict", "journal", "reorder")

CUTS = {
    "ballast": ("create:ballast:1", "fallocate:ballast:1", "fsync:ballast:1:after"),
    "the database": (
        "create:tower.db-wal:1:after",
        "fsync:tower.db:1",
        *(f"write:tower.db-wal:{number}" for number in (3, 30, 50, 70)),
        *(f"fsync:tower.db-wal:{number}" for number in range(1, 12, 2)),
        *(f"fsync:tower.db-wal:{number}:after" for number in range(2, 12, 2)),
        "write:tower.db:1:after",
    ),
    "the run's folder": (
        "mkdir:first:1:after",
        "mkdir:run_*:1:after",
        "create:payload.md:2",
        "create:stdout.log:1:after",
    ),
    "start": (
        "fsync:start.*:1",
        "link:start:1",
        "link:start:1:after",
        "unlink:start.*:1:after",
        "fsyncdir:run_*:1:after",
    ),
    "exit.json": (
        "create:exit.json.*:1",
        "fsync:exit.json.*:1",
        "rename:exit.json.*:1",
        "rename:exit.json.*:1:after",
        "fsyncdir:run_*:2:after",
        "rename:exit.json.*:2",
        "fsyncdir:run_*:3:after",
    ),
    "the answer": ("create:.answer.txt.new:1:after", "rename:.answer.txt.new:1:after"),
    "a named point": tuple(f"point {name}" for name in (*NAMES, *KEEPER_NAMES)),
    "nothing": ("-",),
}
"""At what the power goes. At a named point whoever passes it is stopped first, and the program, if there is one, has
begun its work; at nothing: when all is done."""

POINT = "point "


@dataclass(frozen=True, slots=True)
class Cut:
    """One power cut; see `lossyfs` for `at` and `manner`."""

    at: str
    of: str
    manner: str
    access: str = "read-write"

    @property
    def id(self) -> str:
        return f"{self.manner}-{self.at}".replace("*", "").replace(":", "-").replace(" ", "-")


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one power cut."""

    what: Cut
    findings: Findings
    reached: bool
    seconds: float


@cache
def why_not() -> str | None:
    """Why no lossy disk can be had here; None when it can."""
    if find_spec("mfusepy") is None:
        return "mfusepy is not installed"
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return "/dev/fuse cannot be opened"
    if os.geteuid() != 0:
        return "only root mounts a file system"
    with factory(elsewhere=True) as made:
        try:
            Disk(made, "-", "strict").power_off()
        except (AssertionError, OSError) as error:
            return f"no file system can be mounted here: {error}"
    return None


class Disk:
    """The lossy file system under the state folder of a factory."""

    def __init__(self, made: Factory, cut: str, manner: str) -> None:
        made.state.parent.mkdir(exist_ok=True)
        self._mount = str(made.state.parent)
        self._process = subprocess.Popen(
            [sys.executable, str(LOSSY), self._mount, str(made.folder / "disk"), cut],
            env=os.environ | {"LOSSY": manner},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        mounted = wait_until(lambda: os.path.ismount(self._mount) or self.is_off, seconds=10)
        if not mounted or self.is_off:
            words = self._process.communicate(timeout=5)[1] if self.is_off else b"it does not answer"
            raise AssertionError(words.decode(errors="replace").strip()[-300:])

    @property
    def is_off(self) -> bool:
        return self._process.poll() is not None

    def power_off(self) -> None:
        """Cut the power if it is still on, and take the disk away."""
        if not self.is_off:
            self._process.send_signal(signal.SIGUSR1)
            wait_until(self._seen_off, seconds=5)
        self.take_away()

    def take_away(self) -> None:
        """Leave no mount behind."""
        self._process.kill()
        self._process.communicate()
        subprocess.run(["umount", "-l", self._mount], stderr=subprocess.DEVNULL, check=False)

    def _seen_off(self) -> bool:
        with contextlib.suppress(OSError):
            os.listdir(self._mount)  # a signal is seen at the next request
        return self.is_off


def play(cut: Cut) -> Result:
    """Cut the power once, and look at what is left after the next start."""
    began = time.monotonic()
    point = cut.at.removeprefix(POINT) if cut.at.startswith(POINT) else None
    with factory(cut.access, elsewhere=True) as made:
        made.open_gate()
        disk = Disk(made, "-" if point else cut.at, cut.manner)
        try:
            client = Client(made)
            made.serve(environ={"TOWER_FAILPOINTS": f"{point}=stop"} if point else {})
            if point:
                reached = wait_at(made, point, 1, 20.0)
                if KEEPER in victims_at(point):
                    wait_until(lambda: bool(made.diary("began")), seconds=1.0)
            else:
                made.finish(client, seconds=20.0, until=lambda: disk.is_off)
                reached = disk.is_off or cut.at == "-"
            _everything_ends(made, disk)
            disk = Disk(made, "-", "journal")
            made.must_serve()
            unfinished = made.finish(client, seconds=15.0)
            client.leave()
            findings = examine(made, client.acknowledged, unfinished, unsynced=True)
        finally:
            made.clean_up()
            disk.take_away()
    return Result(cut, findings, reached, time.monotonic() - began)


def _everything_ends(made: Factory, disk: Disk) -> None:
    disk.power_off()
    while alive := [*made.keepers(), *made.processes()]:
        kill(made.tower_pid, *alive)
    kill(made.tower_pid, *made.nursery())
    assert made.process is not None
    made.process.wait(20)


def cuts() -> list[Cut]:
    """All of them: each point in each manner, the access of the first agent in turns."""
    found = []
    for manner in MANNERS:
        for of, points in CUTS.items():
            found += [Cut(at, of, manner) for at in points]
    return [Cut(one.at, one.of, one.manner, ("read-write", "read-only")[turn % 2]) for turn, one in enumerate(found)]


def sample() -> list[Cut]:
    """One of the start, the end, the database and the ballast each."""
    chosen = ("fsync:ballast:1:after", "fsyncdir:run_*:1:after", "rename:exit.json.*:1:after", "fsync:tower.db-wal:5")
    return [one for one in cuts() if one.manner == "strict" and one.at in chosen]


def table(results: Iterable[Result]) -> Iterator[str]:
    """A row for each place and manner."""
    groups: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        groups.setdefault((result.what.of, result.what.manner), []).append(result)
    yield "| power cut at | disk | cuts | not reached | lost | doubled | leaked | untrue | seconds |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for (of, manner), found in groups.items():
        counts = [
            sum(len(getattr(one.findings, kind)) for one in found) for kind in ("lost", "doubled", "leaked", "untrue")
        ]
        cells = [len(found), sum(not one.reached for one in found), *counts, round(sum(one.seconds for one in found))]
        yield f"| {of} | {manner} | {' | '.join(map(str, cells))} |"
