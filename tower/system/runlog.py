"""A run's logs, read in pages by logical offset; how they lie on disk is decided by `keeper.logs`.

A byte keeps its offset for good. Where a segment in the middle was dropped, a page begins behind the gap and says
so by its own offset. Nothing here waits: who follows a log asks again when its keeper tells of growth.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tower.system.files import refuse_shortage

LARGEST_PAGE: Final = 4 << 20
"""Bytes of one page at most, whatever is asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogChunk:
    """Bytes of a log that stand side by side."""

    data: bytes
    offset: int
    """Where they begin: as asked, or behind a gap, or at the end of the log."""

    @property
    def next_offset(self) -> int:
        """Where to go on reading."""
        return self.offset + len(self.data)


def read_log(folder: str | Path, stream: str, offset: int, limit: int) -> LogChunk:
    """One page of `stream` (stdout or stderr) of the run in `folder`; empty at the end, or when there is no log.

    A negative `offset` counts from the end. Raises OSError when the disk does, `BusyError` for want of descriptors.
    """
    segments = _Segments(folder, stream)
    if offset < 0:
        offset = max(0, segments.size + offset)
    limit = min(limit, LARGEST_PAGE)
    data = b""
    start = at = segments.first_at(offset)
    while len(data) < limit:
        piece = segments.read(at, limit - len(data))
        if not piece:
            break
        data += piece
        at += len(piece)
    return LogChunk(data=data, offset=start)


def log_size(folder: str | Path, stream: str) -> int:
    """Logical size: the offset at which the next byte will stand. 0 when there is no log."""
    return _Segments(folder, stream).size


def bytes_cut(folder: str | Path) -> int:
    """How many bytes of both streams were dropped from their middles, to keep the logs within their bound."""
    return sum(_Segments(folder, stream).cut for stream in ("stdout", "stderr"))


class _Segments:
    """The segments that were there when this was made."""

    def __init__(self, folder: str | Path, stream: str) -> None:
        self._head = Path(folder, f"{stream}.log")
        self._numbers = sorted(
            int(path.suffix[1:]) for path in self._head.parent.glob(f"{stream}.log.*") if path.suffix[1:].isdecimal()
        )
        # Only a full segment is followed by another, so the head tells how large they are.
        self._bytes = _size(self._head)
        self.size = self._bytes
        if self._numbers and self._bytes:
            last = self._numbers[-1]
            self.size = last * self._bytes + _size(self._path(last))

    @property
    def cut(self) -> int:
        """Bytes between the head and the oldest segment that is left."""
        return (self._numbers[0] - 1) * self._bytes if self._numbers else 0

    def first_at(self, offset: int) -> int:
        """The first offset from `offset` on that still has bytes, or the end."""
        if offset >= self.size or offset < self._bytes:
            return min(offset, self.size)
        number = next((number for number in self._numbers if number >= offset // self._bytes), 0)
        return max(offset, number * self._bytes)

    def read(self, offset: int, limit: int) -> bytes:
        """Bytes of one segment; none at its end, or when it was dropped."""
        if not self._bytes:
            return b""
        number = offset // self._bytes if self._numbers else 0
        fd = _open(self._path(number))
        if fd is None:
            return b""
        try:
            return os.pread(fd, limit, offset - number * self._bytes)
        finally:
            os.close(fd)

    def _path(self, number: int) -> Path:
        return self._head.with_name(f"{self._head.name}.{number}") if number else self._head


def _size(path: Path) -> int:
    fd = _open(path)
    if fd is None:
        return 0
    try:
        return os.fstat(fd).st_size
    finally:
        os.close(fd)


def _open(path: Path) -> int | None:
    """A regular file, or nothing: a program may have put a pipe or a link in its place."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        refuse_shortage(path, error)
        return None
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    return None
