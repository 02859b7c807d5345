"""Places to work, as the engine asks for them: made, looked at, removed. All of it blocks: call it in a worker thread.

How a snapshot is taken is `snapshot`'s, what a writer did in a live tree is told by `changes`; who gets which place
is the engine's.
"""

from __future__ import annotations

import os
import secrets
import subprocess
from collections.abc import Container
from pathlib import Path
from typing import Final

from tower.core.errors import InvalidError, TowerError
from tower.core.launch import LIVE, Workspace
from tower.system.changes import Changes, changes_since
from tower.system.git import shown
from tower.system.repository import check_repository, find_repository, read_head
from tower.system.snapshot import take_snapshot

__all__ = [
    "Changes",
    "changes_since",
    "check_repository",
    "live_workspace",
    "remove_folder",
    "remove_workspace",
    "sweep_workspaces",
    "take_snapshot",
    "why_no_place",
]

GONE: Final = ".gone-"
"""How the name of a folder begins that is being deleted: nobody takes it for a workspace any more."""

_DELETING: Final = 3600.0
"""Seconds: far more than deleting a million files takes."""


def live_workspace(live: str) -> Workspace:
    """The live tree as a place to work. Raises `InvalidError` when there is no such folder.

    It need not be a git repository; then, and when its repository cannot be read, `base` is None.
    """
    notes: tuple[str, ...] = ()
    base = top = None
    root = os.path.realpath(live)
    writable = [root]
    if not Path(root).is_dir():
        raise InvalidError(
            "work-dir",
            f"cannot work in {shown(live)}: it is not a folder",
            "create it, or name another in work_dir",
        )
    try:
        repository = find_repository(root)
        top, base = repository.top, read_head(repository).commit
        # A subfolder's or a linked work tree's git data lie elsewhere.
        writable += [one for one in (repository.git_dir, repository.common_dir) if one is not None]
    except TowerError as error:
        notes = (f"what this run changes cannot be compared with a commit: {error.sentence}",)
    return Workspace(
        path=root,
        kind=LIVE,
        root=root,
        repository=top,
        base=base,
        writable=tuple(dict.fromkeys(writable)),
        notes=notes,
    )


def why_no_place(path: str, *, writes: bool) -> tuple[str, str] | None:
    """Why nobody can work in a folder, in words, and what to do about it; None when nothing speaks against it.

    `writes` asks whether a writer could. Whether it is a repository is not looked at.
    """
    place = Path(path)
    named = shown(path)
    if not os.path.lexists(place):
        above = next(folder for folder in place.parents if folder.exists())
        if above == place.parent:
            return f"there is no folder {named}", "bring it back, or make it"
        return f"there is no folder {named}, nor any below {shown(str(above))}", "see whether its disk is mounted"
    if not place.is_dir():
        return f"{named} is not a folder", "move it away, and make a folder"
    if not os.access(place, os.R_OK | os.X_OK):
        return f"the tower's user may not look into {named}", "give it the right to (`chmod`, `chown`)"
    if writes and os.statvfs(place).f_flag & os.ST_RDONLY:
        return (
            f"{named} lies on a file system that is mounted read-only",
            'mount it for writing (`mount -o remount,rw`), or give who only reads there access = "read-only"',
        )
    return None


def remove_workspace(folder: str) -> str | None:
    """Delete a folder that `take_snapshot` made; it is gone at once for everybody who looks for it by name.

    None when all went well, or there was no such folder; else a sentence that says what is left, and why. What is
    left has a name that `sweep_workspaces` finds.
    """
    place = Path(folder)
    aside = place if place.name.startswith(GONE) else place.with_name(f"{GONE}{place.name}-{secrets.token_hex(4)}")
    try:
        place.rename(aside)
    except FileNotFoundError:
        return None
    except OSError as error:
        return _left(folder, (error.strerror or str(error)).lower())
    return remove_folder(str(aside))


def remove_folder(folder: str) -> str | None:
    """Delete a folder where it stands; None when all went well, else a sentence that says what is left, and why."""
    place = Path(folder)
    words = _delete(place)
    return _left(folder, words) if words and os.path.lexists(place) else None


def sweep_workspaces(parent: str, keep: Container[str]) -> tuple[str, ...]:
    """Delete every folder in `parent` whose name is not in `keep`; say in a sentence each what could not be deleted.

    For the start, when a crash may have left some behind, half made or half deleted. A `parent` that does not exist
    holds nothing.
    """
    try:
        names = sorted(entry.name for entry in Path(parent).iterdir())
    except FileNotFoundError:
        return ()
    except OSError as error:
        return (_left(parent, (error.strerror or str(error)).lower()),)
    told = (remove_workspace(str(Path(parent, name))) for name in names if name not in keep)
    return tuple(problem for problem in told if problem is not None)


def _delete(place: Path) -> str:
    """Delete a folder whatever an agent left in it: folders without write permission, ten thousand levels of them.

    Says what the system said about the last thing that could not be deleted; "" when all is well.
    """
    words = _run("rm", "-rf", "--", str(place))
    if not words:
        return ""
    _run("chmod", "-R", "u+rwx", "--", str(place))
    return _run("rm", "-rf", "--", str(place))


def _run(*command: str) -> str:
    environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}
    try:
        done = subprocess.run(command, capture_output=True, timeout=_DELETING, env=environment, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    lines = done.stderr.splitlines() or [b"it failed without a word"]
    return shown(lines[-1]) if done.returncode else ""


def _left(folder: str, words: str) -> str:
    return f"cannot remove {shown(folder)}: {words}; remove it by hand"
