"""What happened in a live tree since a commit, for the note that a new run takes over with."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tower.core.errors import TowerError
from tower.system.git import shown
from tower.system.gitdir import AS_IT_STANDS, GitDir, copy_index, looking_at
from tower.system.repository import Head, Repository, find_repository, object_format, read_head
from tower.system.sparse import unfold

MOST: Final = 40
"""Names and commits that a note lists."""

_BRANCHES: Final = "refs/heads/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Commits made and files not committed; all text is printable and of one line each."""

    commits: tuple[str, ...] = ()
    """Short id and subject, newest first, at most `MOST`."""
    files: tuple[str, ...] = ()
    """Names of files that are changed, added or deleted and not committed, at most `MOST`."""
    branch: str | None = None
    """Short name; None when HEAD is detached, or there is no repository."""
    more: int = 0
    """Files beyond those that are named."""
    unknown: str | None = None
    """In words: why the commits could not be told."""
    is_repository: bool = True


def changes_since(live: str, base: str | None) -> Changes:
    """Look at the live tree: commits since `base` (all of them when it is None) and what is not committed.

    Nothing is written there, as with snapshots. A folder that is no repository has no changes that could be told.
    Raises what `git` raises, and `TowerError` when there is no room to look from.
    """
    try:
        repository = find_repository(live)
        head = read_head(repository)
    except TowerError as error:
        return Changes(unknown=str(error), is_repository=False)
    try:
        with tempfile.TemporaryDirectory(prefix="tower-") as scratch:
            own = _look_at(repository, head, Path(scratch))
            files = _uncommitted(own)
            commits, unknown = _commits(own, head, base)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise TowerError("changes", f"cannot tell what changed in {shown(live)}: {why}") from error
    return Changes(
        commits=commits,
        files=files[:MOST],
        branch=head.branch.removeprefix(_BRANCHES) if head.branch else None,
        more=max(0, len(files) - MOST),
        unknown=unknown,
    )


def _look_at(repository: Repository, head: Head, scratch: Path) -> GitDir:
    objects = scratch / "objects"
    for folder in ("info", "pack"):
        (objects / folder).mkdir(parents=True)
    here = Head(commit=head.commit)
    form = object_format(repository, head)
    own = looking_at(repository, str(scratch / "look"), head=here, object_format=form, objects=str(objects))
    own.set_info("attributes", AS_IT_STANDS)
    copy_index(repository, own)
    unfold(repository, own)
    return own


def _uncommitted(own: GitDir) -> tuple[str, ...]:
    told = own.read(
        "status", "-z", "--porcelain=v1", "--no-renames", "--untracked-files=all", "--ignore-submodules=all"
    )
    return tuple(sorted(shown(line[3:]) for line in told.split(b"\0")[:-1]))


def _commits(own: GitDir, head: Head, base: str | None) -> tuple[tuple[str, ...], str | None]:
    if head.commit is None or head.commit == base:
        return (), None
    span = head.commit if base is None else f"{base}..{head.commit}"
    try:
        told = own.read("log", f"--max-count={MOST}", "--format=%h %s", "--no-show-signature", span, "--")
    except TowerError as error:
        if error.code != "git-failed":
            raise
        return (), str(error)
    return tuple(shown(line) for line in told.splitlines()), None
