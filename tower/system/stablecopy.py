"""A private copy whose path never changes: a fresh snapshot is taken beside it, and the content goes over.

A program that stays has its working folder open, so that folder is kept and only what is in it is exchanged. The
snapshot's own folder stays as long as its objects are borrowed by the copy.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Final

from tower.core.errors import TowerError
from tower.core.launch import Workspace
from tower.system.git import shown
from tower.system.gitdir import PRIVATE
from tower.system.snapshot import take_snapshot
from tower.system.workspace import remove_workspace

TREE: Final = "tree"
SHOT: Final = "at-"
"""How the folder of a snapshot begins inside that of the copy."""


def renew_copy(
    *, live: str, folder: str, at: str, head_only: bool, include: tuple[str, ...], exclude: tuple[str, ...]
) -> Workspace:
    """Bring the copy in `folder` (made where it is missing) to what `live` holds now; `at` is a name never used before.

    Raises what `take_snapshot` raises; the copy is as it was then.
    """
    base = Path(folder)
    try:
        base.mkdir(mode=PRIVATE, exist_ok=True)
        shot = base / f"{SHOT}{at}"
        taken = take_snapshot(live=live, folder=str(shot), head_only=head_only, include=include, exclude=exclude)
        below = Path(taken.path).relative_to(shot / TREE)
        _exchange(base / TREE, shot / TREE, below.parts, shot / "before")
    except OSError as error:
        raise TowerError(
            "snapshot-failed",
            f"cannot renew the copy in {shown(folder)}: {(error.strerror or str(error)).lower()}",
            "see that the tower's user can write there, or remove that folder",
        ) from error
    remove_workspace(str(shot / "before"))
    for old in base.glob(f"{SHOT}*"):
        if old != shot:
            remove_workspace(str(old))
    return replace(taken, path=str(base / TREE / below))


def _exchange(kept: Path, fresh: Path, below: tuple[str, ...], before: Path) -> None:
    """Move what is in `kept` to `before`, and what is in `fresh` to `kept`, but for the folders that `below` names."""
    before.mkdir(mode=PRIVATE)
    if kept.is_symlink() or not kept.is_dir():
        if os.path.lexists(kept):
            kept.rename(before / f"{kept.name}-instead")
        kept.mkdir(mode=PRIVATE)
    # An agent may have taken the right to write away from itself.
    kept.chmod(kept.stat().st_mode | 0o700)
    _move_all(kept, before / "content", below[:1])
    _move_all(fresh, kept, below[:1])
    if below:
        _exchange(kept / below[0], fresh / below[0], below[1:], before / "below")


def _move_all(source: Path, target: Path, but: tuple[str, ...]) -> None:
    target.mkdir(mode=PRIVATE, exist_ok=True)
    with os.scandir(source) as entries:
        names = [entry.name for entry in entries if entry.name not in but]
    for name in names:
        (source / name).rename(target / name)
