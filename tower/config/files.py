"""Reading what a person may have put anywhere: bounded, never blocking, and never by raising.

Also says which folders are to be watched for a file, since a file is replaced by its folder's entry, and which path
lies inside which. What the text means is left to `load` and `texts`.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MAX_CONFIG_BYTES: Final = 1 << 20
"""A factory of fifty agents with their prompts inline takes a tenth of it."""

MAX_TEXT_BYTES: Final = 1 << 20
"""Of one prompt, persona or role file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """Why a file cannot be used, in words that follow its name."""

    sentence: str
    hint: str
    line: int = 0
    column: int = 0


def read_text(path: Path, limit: int) -> str | Unreadable:
    """The text of a UTF-8 file of at most `limit` bytes, a byte order mark left out."""
    try:
        # Opening a pipe that nobody writes to would wait for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        return _refusal(error)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            return Unreadable(sentence="is not a file", hint="name an ordinary text file")
        data = _read(descriptor, limit + 1, found.st_size)
    except OSError as error:
        return _refusal(error)
    finally:
        os.close(descriptor)
    if len(data) > limit:
        return Unreadable(sentence=f"is larger than {limit} bytes", hint="name a smaller file, or split it")
    return _decoded(data)


def _read(descriptor: int, most: int, size: int) -> bytes:
    """At most `most` bytes. `size` is a guess: `/proc` and its like do not say what they hold, or give it in pieces.

    No more is asked for than may be there, since room for all of it is made beforehand.
    """
    pieces = []
    while most and (piece := os.read(descriptor, min(most, max(size + 1, 4096)))):
        pieces.append(piece)
        most -= len(piece)
    return b"".join(pieces)


def _refusal(error: OSError | ValueError) -> Unreadable:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return Unreadable(sentence="does not exist", hint="make it, or name another")
    if isinstance(error, PermissionError):
        return Unreadable(sentence="cannot be read by this user", hint="change its mode or its owner")
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return Unreadable(sentence=f"cannot be read: {reason}", hint="name an ordinary text file")


def _decoded(data: bytes) -> str | Unreadable:
    try:
        text = data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        line, start = before.count(b"\n") + 1, before.rfind(b"\n") + 1
        column = len(before[start:].decode("utf-8")) + 1
        return Unreadable(sentence="is not UTF-8", hint="save it as UTF-8", line=line, column=column)
    nul = text.find("\0")
    if nul >= 0:
        line, start = text.count("\n", 0, nul) + 1, text.rfind("\n", 0, nul) + 1
        return Unreadable(sentence="holds a NUL byte", hint="name a text file", line=line, column=nul - start + 1)
    return text


def exists(path: Path) -> bool:
    """Whether anything is there, a broken symlink excluded. What cannot be asked is not there."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def is_folder(path: Path) -> bool:
    """Whether a folder is there."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def real(path: Path) -> Path:
    """The path with every symlink followed; a loop or what cannot be looked at stays as written."""
    return Path(os.path.realpath(path))


def is_inside(path: Path, folder: Path) -> bool:
    """Whether a real path is a real folder or lies in it."""
    return lies_in(str(path), str(folder))


def lies_in(path: str, folder: str) -> bool:
    """Like `is_inside`, for whoever asks often: a Path takes ten times as long to answer."""
    return path == folder or path.startswith(folder if folder.endswith("/") else f"{folder}/")


def watch_folders(path: Path) -> frozenset[Path]:
    """Folders in which a change can change what `path` names: its own, and those of the symlinks on the way.

    A folder that does not exist stands for its nearest parent that does.
    """
    links = [step for step in (path, *path.parents) if _is_link(step)]
    folders = {path.parent, real(path).parent, *(link.parent for link in links)}
    return frozenset(_nearest_folder(folder) for folder in folders)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What stands at a path."""

    exists: bool
    """A broken symlink excluded."""
    real: str
    watched: frozenset[Path]
    """See `watch_folders`."""


class Look:
    """One look at the disk, in which each folder is asked about once however many files are named in it."""

    def __init__(self) -> None:
        self._folders: dict[str, tuple[str, frozenset[Path]]] = {}

    def find(self, path: str) -> Found:
        """What stands at an absolute path."""
        folder, name = os.path.split(path)
        mode = _mode(path)
        if name in ("", ".", "..") or (mode is not None and stat.S_ISLNK(mode)):
            place = Path(path)
            return Found(exists=exists(place), real=os.path.realpath(path), watched=watch_folders(place))
        if folder not in self._folders:
            self._folders[folder] = os.path.realpath(folder), watch_folders(Path(path))
        inside, watched = self._folders[folder]
        return Found(exists=mode is not None, real=f"{inside}/{name}", watched=watched)


def _mode(path: str) -> int | None:
    try:
        return os.lstat(path).st_mode
    except (OSError, ValueError):
        return None


def _is_link(path: Path) -> bool:
    try:
        return path.is_symlink()
    except (OSError, ValueError):
        return False


def _nearest_folder(folder: Path) -> Path:
    while not is_folder(folder) and folder != folder.parent:
        folder = folder.parent
    return folder
