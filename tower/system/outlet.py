"""A descriptor to write text to that never holds its writer up.

A log goes to a pipe whose reader may be stopped, or to a terminal with its output frozen: a plain write then waits
for ever, and the whole daemon with it. The descriptor cannot be made non-blocking, since that would change it for
everybody who shares it. So a line is written at once while there is room, and by a thread of its own when not.
"""

from __future__ import annotations

import io
import os
import select
import threading
from collections import deque
from typing import Final

AT_ONCE_BYTES: Final = select.PIPE_BUF
"""What a pipe that polls as writable takes without waiting (POSIX: at least 512; Linux: 4096)."""

BACKLOG_BYTES: Final = 1 << 20
"""What is kept for a reader that is late. Beyond it lines are dropped, counted, and the count is told."""


class Outlet(io.TextIOBase):
    """Text written here reaches `descriptor` in order, at once or later, or is counted as lost."""

    def __init__(self, descriptor: int, *, backlog: int = BACKLOG_BYTES) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._backlog = backlog
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._lost = 0
        self._guard = threading.Lock()
        self._writer: threading.Thread | None = None

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        """Take a piece of text, a line as a rule. Never waits and never raises."""
        data = text.encode("utf-8", "backslashreplace")
        with self._guard:
            rest = data if self._writer is not None else self._write_what_fits(data)
            if rest:
                self._keep(rest, whole=len(rest) == len(data))
        return len(text)

    def drain(self, seconds: float = 1.0) -> bool:
        """Wait at most so long until everything is written; False when it is not."""
        writer = self._writer
        if writer is not None:
            writer.join(seconds)
        return self._writer is None

    def _write_what_fits(self, data: bytes) -> bytes:
        """Write as much as can be written without waiting, and return the rest."""
        while data:
            try:
                if not self._has_room(0):
                    return data
                data = data[os.write(self._descriptor, data[:AT_ONCE_BYTES]) :]
            except BlockingIOError:
                return data
            except OSError:
                return b""  # closed, a full disk, a reader that went away: there is nobody to tell
        return b""

    def _has_room(self, milliseconds: int | None) -> bool:
        poll = select.poll()
        poll.register(self._descriptor, select.POLLOUT)
        return bool(poll.poll(milliseconds))

    def _keep(self, data: bytes, *, whole: bool) -> None:
        """Leave the data to the thread. The rest of a line that has begun is never dropped."""
        if whole and self._waiting_bytes + len(data) > self._backlog:
            self._lost += 1
            return
        self._waiting.append(data)
        self._waiting_bytes += len(data)
        if self._writer is None:
            self._writer = threading.Thread(target=self._write_patiently, name="log-outlet", daemon=True)
            self._writer.start()

    def _write_patiently(self) -> None:
        """Write what waits, however long the reader takes, and end when nothing is left."""
        while True:
            with self._guard:
                if not self._waiting and self._lost:
                    self._waiting.append(b'{"event": "log.lost", "lines": %d}\n' % self._lost)
                    self._waiting_bytes += len(self._waiting[0])
                    self._lost = 0
                if not self._waiting:
                    self._writer = None
                    return
                data = self._waiting.popleft()
            while data:
                written = self._write_some(data)
                data = data[written:]
                with self._guard:
                    self._waiting_bytes -= written

    def _write_some(self, data: bytes) -> int:
        """Write what the reader takes, after a wait for room; bytes that nobody can take any more count as written."""
        try:
            self._has_room(None)
            return os.write(self._descriptor, data)
        except BlockingIOError:  # somebody made the descriptor non-blocking, or took the room
            return 0
        except OSError:
            return len(data)
