"""What it costs to name, freeze and copy a tree: beside `git worktree add`, `git status` and a tar extraction.

On synthetic repositories, and on one real source tree: that of an installed package. All file systems are not equal:
see the README. Sizes other than the usual ones: `TOWER_BENCH_FILES=50000`.
"""

from __future__ import annotations

import io
import os
import random
import shutil
import subprocess
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pydantic

from tower.system.frozen import FrozenTrees
from tower.system.treestore import name_tree
from tower.system.workspace import remove_workspace, take_snapshot

from . import machine
from .table import Row, compared

SIZES: Final = (1_000, 10_000)
ROUNDS: Final = 5
CHANGED: Final = 100
"""One file in so many is changed, uncommitted."""

_GIT: Final = {
    "PATH": os.environ.get("PATH", os.defpath),
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    **{f"GIT_{who}_{what}": "b@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
}


def measure(*, tiny: bool = False) -> list[Row]:
    """Wall clock of each way, in turns with its reference."""
    wanted = os.environ.get("TOWER_BENCH_FILES")
    sizes = (200,) if tiny else (int(wanted),) if wanted else SIZES
    rows: list[Row] = []
    with machine.folder() as place:
        for size in sizes:
            live = place / f"live-{size}"
            _fill(live, size)
            rows += _Trial(place, live, f"{size} files", rounds=1 if tiny else ROUNDS).rows()
            shutil.rmtree(live)
        if not tiny:
            live = place / "real"
            shutil.copytree(Path(pydantic.__file__).parents[1], live, symlinks=True)
            _commit(live)
            count = sum(len(files) for _, _, files in os.walk(live))
            rows += _Trial(place, live, f"an installed environment, {count} files with `.git`", rounds=ROUNDS).rows()
    return rows


class _Trial:
    """One repository, measured in every way."""

    def __init__(self, place: Path, live: Path, what: str, *, rounds: int) -> None:
        self._place = place
        self._live = live
        self._what = what
        self._rounds = rounds
        self._count = 0
        self._files = [path for path in live.rglob("*") if path.is_file() and ".git" not in path.parts]

    def rows(self) -> list[Row]:
        worktree, first, tar, same, refreshed, beside, copied = ([] for _ in range(7))
        named, status = [], []
        archive = self._archive()
        for turn in range(self._rounds):
            worktree.append(self._worktree())
            tar.append(self._timed(lambda: self._extract(archive)))
            trees = FrozenTrees(self._new(), remove_workspace)
            first.append(self._timed(lambda trees=trees: self._take(trees, "a")))
            same.append(self._timed(lambda trees=trees: self._take(trees, "b")))
            self._edit(turn)
            beside.append(self._timed(lambda trees=trees: self._take(trees, "c")))
            for run in ("a", "b", "c"):
                trees.let_go(run)
            self._edit(turn + 1000)
            refreshed.append(self._timed(lambda trees=trees: self._take(trees, "d")))
            copied.append(self._timed(self._copy))
            status.append(self._timed(lambda: _git(self._live, "status", "--porcelain")))
            named.append(self._timed(lambda: name_tree(str(self._live), str(self._place / "trees"))))
            _git(self._live, "checkout", "-q", ".")
            shutil.rmtree(trees.cache)
        add = "git worktree add"
        return [
            self._row("first ever", first, worktree, add, 1.3),
            self._row("first ever", first, tar, "tar, from memory", None),
            self._row("unchanged", same, worktree, add, 0.10),
            self._row("1 % changed, the frozen one in use", beside, worktree, add, 1.0),
            self._row("1 % changed, refreshed", refreshed, worktree, add, 0.25),
            self._row("private copy", copied, worktree, add, None),
            self._row("naming, 1 % changed", named, status, "git status", 2.5),
        ]

    def _row(self, name: str, ours: list[float], theirs: list[float], reference: str, most: float | None) -> Row:
        what = f"snapshot, {name}: {self._what}" if not name.startswith("naming") else f"{name}: {self._what}"
        return compared(what, ours, theirs, unit="ms", reference=reference, at_most=most)

    def _timed(self, act: Callable[[], object]) -> float:
        began = time.perf_counter()
        act()
        return (time.perf_counter() - began) * 1000

    def _new(self) -> Path:
        self._count += 1
        return self._place / f"{self._live.name}-{self._count}"

    def _take(self, trees: FrozenTrees, run: str) -> None:
        trees.take(run, live=str(self._live), head_only=False, include=(), exclude=())

    def _copy(self) -> None:
        place = self._new()
        take_snapshot(live=str(self._live), folder=str(place))

    def _worktree(self) -> float:
        place = self._new()
        seconds = self._timed(lambda: _git(self._live, "worktree", "add", "-q", "--detach", str(place)))
        _git(self._live, "worktree", "remove", "--force", str(place))
        return seconds

    def _archive(self) -> bytes:
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            for path in self._files:
                archive.add(path, str(path.relative_to(self._live)), recursive=False)
        return packed.getvalue()

    def _extract(self, archive: bytes) -> None:
        place = self._new()
        place.mkdir()
        subprocess.run(["tar", "-x", "-C", str(place)], input=archive, check=True)

    def _edit(self, seed: int) -> None:
        """Change one file in a hundred; without a sleep, as an agent would."""
        chance = random.Random(seed)
        for path in chance.sample(self._files, max(1, len(self._files) // CHANGED)):
            with path.open("ab") as file:
                file.write(b"# changed\n")


def _fill(live: Path, size: int) -> None:
    """Files of some kB, twenty to a folder, three folders deep."""
    chance = random.Random(size)
    for number in range(size):
        path = live / f"p{number // 2000}/m{number // 200 % 10}/d{number // 20 % 10}/file_{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        length = min(200_000, int(chance.lognormvariate(7.8, 1.3)))
        path.write_bytes(chance.randbytes(length // 2).hex().encode())
    _commit(live)


def _commit(live: Path) -> None:
    _git(live, "init", "-q", "-b", "main")
    _git(live, "add", "-A", "--force")
    _git(live, "commit", "-q", "-m", "first")


def _git(where: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=where, env=_GIT, check=True, capture_output=True)
