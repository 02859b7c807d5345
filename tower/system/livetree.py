"""What stands on disk in a live tree, seen without following a link, opening a pipe or leaving the tree.

Which of it git ignores or has recorded already is `capture`'s to find out.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tower.core.errors import InvalidError
from tower.system.git import shown

_RULES: Final = frozenset({b".gitignore", b".gitattributes"})
"""Files that git opens wherever it comes by, without looking what they are."""

_SPECIAL: Final = {
    stat.S_IFIFO: "pipes",
    stat.S_IFSOCK: "sockets",
    stat.S_IFCHR: "devices",
    stat.S_IFBLK: "devices",
}

Signature = tuple[int, int, int, int, int]
"""What changes whenever a file does: mode, inode, size and both times."""


def size_of(signature: Signature | None) -> int:
    """Bytes of the file that was seen; -1 when none was."""
    return -1 if signature is None else signature[2]


class Kind(StrEnum):
    """What a name in the tree is."""

    FILE = "file"
    LINK = "link"
    FOLDER = "folder"
    GONE = "gone"
    """Nothing there, or nothing that can be reached without following a link."""
    LEFT_OUT = "left out"


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What stood under a name at one moment."""

    kind: Kind
    signature: Signature = (0, 0, 0, 0, 0)
    why: str | None = None
    """For what is left out: the reason, as the heading of a list; None when nobody needs to know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What a look into folders found beside ordinary files."""

    special: tuple[tuple[bytes, str], ...]
    """Names of pipes, sockets and devices, each with what they are."""
    attributes: bool
    """Whether there is any .gitattributes."""


class LiveTree:
    """One live tree; names are relative to its top, in bytes as the kernel has them."""

    def __init__(self, top: str, exclude: Sequence[str] = ()) -> None:
        """`exclude`: absolute paths that do not belong to the tree; those outside it do not matter."""
        self._top = os.fsencode(top).rstrip(b"/")
        self._folders = {b"": True}
        below = [os.fsencode(os.path.realpath(path)) for path in exclude]
        self.excluded = tuple(path[len(self._top) + 1 :] for path in below if path.startswith(self._top + b"/"))

    def path(self, name: bytes) -> bytes:
        return self._top + b"/" + name

    def is_excluded(self, name: bytes) -> bool:
        return any(name == outer or name.startswith(outer + b"/") for outer in self.excluded)

    def forget(self) -> None:
        """Look at folders anew: time has passed."""
        self._folders = {b"": True}

    def look(self, name: bytes) -> Found:
        """What `name` is now."""
        if self.is_excluded(name):
            return Found(kind=Kind.LEFT_OUT)
        if not self._is_real_folder(name.rpartition(b"/")[0]):
            return Found(kind=Kind.GONE)
        try:
            seen = os.lstat(self.path(name))
        except (FileNotFoundError, NotADirectoryError):
            return Found(kind=Kind.GONE)
        except OSError as error:
            return Found(kind=Kind.LEFT_OUT, why=_unreadable(error))
        signature = _signature(seen)
        form = stat.S_IFMT(seen.st_mode)
        if form == stat.S_IFLNK:
            return Found(kind=Kind.LINK, signature=signature)
        if form == stat.S_IFDIR:
            return Found(kind=Kind.FOLDER, signature=signature)
        if form != stat.S_IFREG:
            return Found(kind=Kind.LEFT_OUT, why=_SPECIAL.get(form, "special files"))
        if not os.access(self.path(name), os.R_OK):
            return Found(kind=Kind.LEFT_OUT, why="files that the tower may not read")
        return Found(kind=Kind.FILE, signature=signature)

    def signature(self, name: bytes) -> Signature | None:
        """What tells the present state of `name` from others; None when it cannot be seen."""
        try:
            return _signature(os.lstat(self.path(name)))
        except OSError:
            return None

    def names_in(self, folder: bytes) -> list[bytes] | None:
        """What is in a folder; None when there is no such folder, or it cannot be read."""
        if not self._is_real_folder(folder):
            return None
        try:
            with os.scandir(self.path(folder)) as entries:
                return [entry.name for entry in entries]
        except OSError:
            return None

    def leads_out(self, name: bytes) -> bool:
        """Whether the link `name` points outside the tree."""
        try:
            target = os.readlink(self.path(name))  # noqa: PTH115 - names are bytes
        except OSError:
            return False
        folder = name.rpartition(b"/")[0]
        # Lexically, since nothing is followed: what a link in between does is the reader's business.
        inside = os.path.normpath(b"/".join((folder, target)) if folder else target)
        return target.startswith(b"/") or inside == b".." or inside.startswith(b"../")

    def survey(self, folders: Iterable[bytes]) -> Survey:
        """Look through folders (not into what is below them) for what git would wait for, or not mention.

        Raises `InvalidError` when a rules file of git's is a pipe or the like: git would wait for it without end.
        """
        special: list[tuple[bytes, str]] = []
        attributes = False
        for folder in folders:
            for name, mode in self._entries(folder):
                base = name.rpartition(b"/")[2]
                attributes = attributes or base == b".gitattributes"
                what = _SPECIAL.get(stat.S_IFMT(mode))
                if what is None or self.is_excluded(name):
                    continue
                if base in _RULES:
                    raise _blocking(self.path(name), what)
                special.append((name, what))
        return Survey(special=tuple(special), attributes=attributes)

    def find_blocking(self) -> None:
        """Search the whole tree for what made git wait. Raises `InvalidError` when it finds it."""
        for folder, folders, files in os.walk(self._top):
            folders[:] = [name for name in folders if name != b".git"]
            for name in _RULES.intersection(files):
                path = folder + b"/" + name
                what = _SPECIAL.get(stat.S_IFMT(os.lstat(path).st_mode))
                if what is not None:
                    raise _blocking(path, what)

    def _entries(self, folder: bytes) -> Iterable[tuple[bytes, int]]:
        """Names in a folder with their modes; only the form is asked for where the folder itself knows it."""
        prefix = folder + b"/" if folder else b""
        if not self._is_real_folder(folder):
            return
        try:
            with os.scandir(self.path(folder)) as entries:
                for entry in entries:
                    if entry.is_symlink() or entry.is_dir(follow_symlinks=False):
                        yield prefix + entry.name, 0
                    elif entry.is_file(follow_symlinks=False):
                        yield prefix + entry.name, stat.S_IFREG
                    else:
                        yield prefix + entry.name, entry.stat(follow_symlinks=False).st_mode
        except OSError:
            return

    def _is_real_folder(self, folder: bytes) -> bool:
        """Whether every part of the way is a folder and no link."""
        unknown = []
        while folder not in self._folders:
            unknown.append(folder)
            folder = folder.rpartition(b"/")[0]
        real = self._folders[folder]
        for deeper in reversed(unknown):
            real = real and _is_folder(self.path(deeper))
            self._folders[deeper] = real
        return real


def _signature(seen: os.stat_result) -> Signature:
    return seen.st_mode, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns


def _is_folder(path: bytes) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def _unreadable(error: OSError) -> str:
    return f"files that cannot be read ({(error.strerror or str(error)).lower()})"


def _blocking(path: bytes, what: str) -> InvalidError:
    return InvalidError(
        "repository",
        f"cannot take a snapshot: {shown(path)} is among the {what}, and git would wait for it without end",
        "remove it",
    )
