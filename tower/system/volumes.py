"""The volumes of the store of named trees: git directories, each written to for a week and then only read.

A tree is whole within the volume that was written to when it was named, so that a volume goes as one when nobody needs
a tree in it: nothing has to be walked, and no crash leaves a tree without its parts. What is in them is `treestore`'s.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

from tower.core.errors import TowerError
from tower.system import procfs
from tower.system.git import git
from tower.system.gitdir import PRIVATE, make_git_dir
from tower.system.repository import Head
from tower.system.workspace import GONE, remove_workspace

WEEK: Final = 7 * 86400.0
"""Seconds that one volume is written to. A new one costs as many objects as the tree has folders."""

AFTERWARDS: Final = 86400.0
"""Seconds after that before it may go: far more than naming a tree and recording its name take."""

FORMS: Final = ("sha1", "sha256")

_BOOT: Final = "boot"
"""File with the start of the machine in which the volume was found sound."""


def writable(store: str, form: str) -> Path:
    """The volume that new objects go to; it is made, and `store` with it, when its week is over or it is damaged.

    Whoever names a tree with it has all of that tree's new objects in it. Raises `OSError`.
    """
    now = time.time()
    for volume in volumes(store, form):
        if abs(now - _begun(volume)) < WEEK and _is_sound(volume):
            return volume
    return _begin(Path(store, form), form, int(now))


def volumes(store: str, form: str) -> list[Path]:
    """All volumes for one object format, the newest first."""
    try:
        found = [place for place in Path(store, form).iterdir() if place.name.isdigit()]
    except FileNotFoundError:
        return []
    return sorted(found, key=_begun, reverse=True)


def holds(volume: Path, trees: Collection[str]) -> bool:
    """Whether any of these trees was named in a volume. Raises what `git` raises."""
    objects = volume / "objects"
    if any((objects / tree[:2] / tree[2:]).exists() for tree in trees):
        return True
    if not trees or not any((objects / "pack").glob("*.pack")):
        return False
    given = "".join(f"{tree}\n" for tree in trees).encode()
    told = git(["cat-file", "--batch-check"], git_dir=str(volume), objects=str(objects), cwd=str(volume), input=given)
    return any(b" tree " in line for line in told.splitlines())


def drop_unneeded(store: str, needed: Collection[str], now: float) -> tuple[str, ...]:
    """Drop the volumes that are written to no more and hold none of the trees `needed`, and what a crash left behind.

    Says in a sentence each what could not be dropped. `now` is in seconds since the epoch.
    """
    told: list[str | None] = []
    for form in FORMS:
        told += (remove_workspace(str(place)) for place in _strays(Path(store, form), now))
        for volume in volumes(store, form):
            try:
                if abs(now - _begun(volume)) < WEEK + AFTERWARDS or holds(volume, needed):
                    continue
            except TowerError as error:
                told.append(f"cannot tell whether {volume} is still needed: {error}")
                continue
            told.append(remove_workspace(str(volume)))
    return tuple(words for words in told if words is not None)


def _begin(place: Path, form: str, now: int) -> Path:
    """Make a volume under another name first, so that there is never half of one."""
    place.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
    number = now
    while (volume := place / str(number)).exists():
        number += 1  # one of this very second is damaged
    with tempfile.TemporaryDirectory(prefix="new-", dir=place) as fresh:
        made = Path(fresh, "git")
        make_git_dir(str(made), head=Head(), object_format=form, settings={})
        (made / _BOOT).write_text(procfs.boot_id())
        try:
            made.rename(volume)
        except OSError:
            if not (volume / "HEAD").exists():  # else another one was faster
                raise
    return volume


def _is_sound(volume: Path) -> bool:
    """Whether git can go on with it. Nothing in it is synced, so that a power cut may leave files without content."""
    boot = procfs.boot_id()
    try:
        if (volume / _BOOT).read_text() == boot:
            return True
        if not (volume / "HEAD").stat().st_size or not (volume / "config").stat().st_size:
            return False
        if any(not entry.stat().st_size for entry in (volume / "objects").glob("??/*")):
            return False
        (volume / _BOOT).write_text(boot)
    except FileNotFoundError:
        return False
    return True


def _strays(place: Path, now: float) -> Iterator[Path]:
    """Half of a volume: one that was being made, or removed."""
    for stray in (*place.glob("new-*"), *place.glob(f"{GONE}*")):
        try:
            if stray.name.startswith(GONE) or now - stray.stat().st_mtime > AFTERWARDS:
                yield stray
        except FileNotFoundError:
            continue


def _begun(volume: Path) -> float:
    return float(volume.name)
