"""Takes snapshots: a private folder that holds what a live tree, or its HEAD, holds at one moment.

What that is finds `capture`, how it lies there `layout`. Removing a snapshot is `workspace`'s; whether a run gets one,
and what a sandbox adds to the promise, is the engine's.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tower.core.errors import BusyError, ConflictError, InvalidError, TowerError
from tower.core.launch import SNAPSHOT, Workspace
from tower.system.git import shown
from tower.system.gitdir import PRIVATE
from tower.system.layout import Layout, Part
from tower.system.repository import Repository, find_repository

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


def take_snapshot(
    *,
    live: str,
    folder: str,
    head_only: bool = False,
    include: tuple[str, ...] = (),
    exclude: tuple[str, ...] = (),
) -> Workspace:
    """Make `folder` (which must not exist yet) and lay out in it what `live` holds now, or its HEAD alone.

    `include`: patterns of ignored files that are wanted all the same. `exclude`: absolute paths that are left out,
    such as the state folder; `folder` itself always is. Nothing is written to the live tree or its repository, and
    nothing that its configuration names is executed. On any error nothing is left behind.

    Raises `InvalidError` for a tree of which none can be taken, `BusyError` for one that does not hold still and for a
    full disk, `ConflictError` when the folder exists, `TowerError` for what git says.
    """
    repository = find_repository(live)
    place = Path(folder)
    try:
        place.mkdir(mode=PRIVATE)
    except FileExistsError:
        raise ConflictError("snapshot-exists", f"cannot make a snapshot in {shown(folder)}: it exists") from None
    except OSError as error:
        raise not_made(folder, error) from error
    layout = Layout(place, include=include, exclude=(*exclude, folder))
    try:
        return _take(layout, repository, Path(os.path.realpath(live)), place, head_only=head_only)
    except BaseException as error:
        shutil.rmtree(place, ignore_errors=True)
        if isinstance(error, OSError):
            raise not_made(folder, error) from error
        raise


def _take(layout: Layout, repository: Repository, live: Path, place: Path, *, head_only: bool) -> Workspace:
    tree = place / "tree"
    part = layout.read(repository, head_only=head_only)
    layout.lay_out(tree)
    layout.done()
    return workspace(folder_for(tree, live, repository, head_only=head_only), live, part, layout.notes)


def workspace(path: Path, live: Path, part: Part, notes: Iterable[str]) -> Workspace:
    """A snapshot of `live` as a place to work in, at `path`."""
    return Workspace(
        path=str(path),
        kind=SNAPSHOT,
        root=str(live),
        base=part.head.commit,
        tree=part.tree,
        notes=tuple(notes),
    )


def folder_for(tree: Path, live: Path, repository: Repository, *, head_only: bool) -> Path:
    """The folder of `tree` that `live` is in its repository, made where there are no files in it."""
    below = live.relative_to(repository.top)
    if not (tree / below).is_dir():
        _check_empty(live, repository, head_only=head_only)
        (tree / below).mkdir(parents=True, exist_ok=True)
    return tree / below


def _check_empty(live: Path, repository: Repository, *, head_only: bool) -> None:
    """An agent that finds nothing where its user sees files would report that all is well."""
    if head_only or any(live.iterdir()):
        raise InvalidError(
            "repository",
            f"cannot take a snapshot of {shown(str(live))}: nothing in it belongs to {shown(repository.top)}",
            "add its files to that repository, or run `git init` in it",
        )


def not_made(folder: str, error: OSError) -> TowerError:
    where = f" ({shown(error.filename)})" if isinstance(error.filename, str | bytes) else ""
    sentence = f"cannot make a snapshot in {shown(folder)}: {(error.strerror or str(error)).lower()}{where}"
    if error.errno in _FULL:
        return BusyError("disk-full", sentence, "make room on that disk, then try again")
    return TowerError("snapshot-failed", sentence, "see that the tower's user can read the live tree and write there")
