"""A program's output on its way to disk: a pipe that is emptied without ever waiting, through the one masker."""

from __future__ import annotations

import fcntl
import os

from tower.core.masking import Masker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Final

    from tower.system.keeper.logs import Log

CHUNK: Final = 1 << 18
"""Bytes read at once."""

PIPE_BYTES: Final = 1 << 18
"""Capacity asked for: bursts pass without the program waiting for the keeper's turn."""


class Stream:
    """The reading end of one pipe. `writer` is the other end, for the program alone."""

    __slots__ = ("_capacity", "_log", "_masker", "fd", "writer")

    def __init__(self, log: Log, patterns: Sequence[bytes]) -> None:
        self.fd, self.writer = os.pipe()
        os.set_blocking(self.fd, False)
        try:
            self._capacity = fcntl.fcntl(self.fd, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        except OSError:  # the user's share of pipe memory is used up
            self._capacity = fcntl.fcntl(self.fd, fcntl.F_GETPIPE_SZ)
        self._log = log
        self._masker = Masker(patterns)

    @property
    def size(self) -> int:
        """Logical size of the log, in bytes after masking."""
        return self._log.size

    def copy(self) -> int:
        """Store one chunk of what is there. Returns its size before masking; 0 when there is nothing, or no end."""
        try:
            chunk = os.read(self.fd, CHUNK)
        except BlockingIOError:
            return 0
        if chunk:
            self._log.write(self._masker.feed(chunk))
        else:
            self.close()
        return len(chunk)

    def drain(self) -> None:
        """Store what was in the pipe when this was called, and not what somebody goes on writing into it."""
        left = self._capacity
        while self.is_open and left > 0:
            stored = self.copy()
            if not stored:
                return
            left -= stored

    def finish(self) -> None:
        """Store the last bytes."""
        self.drain()
        self.close()
        self._log.write(self._masker.flush())

    @property
    def is_open(self) -> bool:
        return self.fd >= 0

    def close(self) -> None:
        if self.is_open:
            os.close(self.fd)
            self.fd = -1
