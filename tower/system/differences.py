"""One look at a live tree: in what it differs from an index of the tower's own.

What is done about it is `capture`'s.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tower.core.errors import BusyError
from tower.system.gitdir import GitDir
from tower.system.livetree import LiveTree


@dataclass(slots=True)
class Differences:
    """What one look found."""

    changed: dict[bytes, bytes] = field(default_factory=dict)
    """Names in the index, each with git's letter for the difference."""
    untracked: set[bytes] = field(default_factory=set)
    """Names that are not in the index, and not ignored."""
    included: set[bytes] = field(default_factory=set)
    """Names that are not in the index, and asked for though they are ignored."""
    inner: set[bytes] = field(default_factory=set)
    """Folders that are repositories of their own, and not in the index."""
    matched: set[str] = field(default_factory=set)
    """The patterns that found anything."""


def differences(own: GitDir, disk: LiveTree, include: Sequence[str]) -> Differences:
    """Compare the tree with the index of `own`; `include` are patterns of ignored files that are wanted.

    Submodules that are in the index are not looked into. Raises `InvalidError` when git waits for a pipe, and what
    `git` raises.
    """
    disk.forget()
    found = Differences()
    raw = _ask(own, disk, "diff-files", "-z", "--raw", "--ignore-submodules=all").split(b"\0")
    for meta, name in zip(raw[::2], raw[1::2], strict=False):
        found.changed.setdefault(name, meta.rpartition(b" ")[2])
    names = _belonging(disk, _ask(own, disk, "ls-files", "-z", "--others", "--exclude-standard"))
    _sort_in(names, found.untracked, found)
    for pattern in include:
        told = _ask(own, disk, "ls-files", "-z", "--others", "--ignored", f"--exclude={pattern}")
        names = _belonging(disk, told)
        _sort_in(names, found.included, found)
        if names:
            found.matched.add(pattern)
    found.included -= found.untracked
    return found


def _belonging(disk: LiveTree, names: bytes) -> list[bytes]:
    return [name for name in names.split(b"\0") if name and not disk.is_excluded(name.rstrip(b"/"))]


def _sort_in(names: list[bytes], files: set[bytes], found: Differences) -> None:
    """Tell files from repositories, which git names with a slash at the end."""
    found.inner.update(name.rstrip(b"/") for name in names if name.endswith(b"/"))
    files.update(name for name in names if not name.endswith(b"/"))


def _ask(own: GitDir, disk: LiveTree, *args: str) -> bytes:
    try:
        return own.read(*args)
    except BusyError as error:
        if error.code == "git-timeout":
            disk.find_blocking()
        raise
