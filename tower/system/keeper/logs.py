"""The logs of one run on disk: for each stream a head and numbered segments, all under one bound.

`NAME.log` is the head, `NAME.log.1`, `.2` and so on follow; all but the last are full and of one size, so that a
byte's offset in the stream tells its segment. Of the segments behind the heads the newest are kept. Where the
bytes come from, and that they are masked, is `streams`; reading is `system.runlog`.
"""

from __future__ import annotations

import os

from tower.system.keeper.files import create

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

SEGMENT: Final = 8 << 20
"""Bytes of a segment where the bound allows it."""

PARTS: Final = 8
"""A small bound is cut into so many segments, that the newest part may stay large against what is dropped."""

LEAST_SEGMENT: Final = 4096


class LogShelf:
    """All segments of a run. `max_bytes` bounds what they hold together, the heads included."""

    __slots__ = ("_capacity", "folder", "logs", "segment_bytes")

    def __init__(self, folder: int, max_bytes: int) -> None:
        self.folder = folder
        self.segment_bytes = max(LEAST_SEGMENT, min(SEGMENT, max_bytes // PARTS))
        self._capacity = max(PARTS, max_bytes // self.segment_bytes)
        self.logs: list[Log] = []

    def open(self, name: str) -> Log:
        """A new log, its head made. Raises OSError."""
        log = Log(name, self)
        self.logs.append(log)
        return log

    def make_room(self) -> None:
        """Drop old segments until one more fits: the oldest of the log that has the most to lose."""
        while sum(log.segments for log in self.logs) >= self._capacity:
            max(self.logs, key=_segments).drop_oldest()

    def sync(self) -> None:
        """Make what was written last durable: the evidence for how a run ended stands there."""
        for log in self.logs:
            log.sync()

    @property
    def errors(self) -> int:
        """Writes that failed; their bytes were dropped."""
        return sum(log.errors for log in self.logs)


class Log:
    """One stream on disk. `size` is logical: all that was ever stored, whether or not it is still there."""

    __slots__ = ("_fd", "_filled", "_first", "_last", "_name", "_shelf", "errors", "size")

    def __init__(self, name: str, shelf: LogShelf) -> None:
        self._name = name
        self._shelf = shelf
        self._first = 1
        self._last = 0
        """Segments behind the head that exist: from `_first` to `_last`."""
        self._filled = 0
        self.size = 0
        self.errors = 0
        self._fd = self._create(0)

    @property
    def segments(self) -> int:
        return 2 + self._last - self._first

    def write(self, data: bytes) -> None:
        """Store the bytes, or count what could not be stored and go on: the program must never wait for a disk."""
        at = 0
        while at < len(data):
            if self._filled == self._shelf.segment_bytes and not self._begin_segment():
                return
            room = self._shelf.segment_bytes - self._filled
            try:
                written = os.write(self._fd, data[at : at + room] if at or room < len(data) else data)
            except OSError:
                self.errors += 1
                return
            at += written
            self._filled += written
            self.size += written

    def drop_oldest(self) -> None:
        """Give back the space of the oldest segment behind the head."""
        try:
            os.unlink(self._path(self._first), dir_fd=self._shelf.folder)
        except OSError:
            self.errors += 1
        self._first += 1

    def sync(self) -> None:
        if self.size:
            try:
                os.fdatasync(self._fd)
            except OSError:
                self.errors += 1

    def _begin_segment(self) -> bool:
        self._shelf.make_room()
        try:
            fd = self._create(self._last + 1)
        except OSError:
            self.errors += 1
            return False
        os.close(self._fd)
        self._fd = fd
        self._last += 1
        self._filled = 0
        return True

    def _create(self, number: int) -> int:
        return create(self._path(number), self._shelf.folder)

    def _path(self, number: int) -> str:
        return f"{self._name}.log.{number}" if number else f"{self._name}.log"


def _segments(log: Log) -> int:
    return log.segments
