"""A resident's standard input: its turns are copied into it one by one, and the program is never waited for.

The keeper alone holds the writing end, so that the program outlives every tower. A turn is a file that the tower
wrote; renaming it decides that it is told, as `start` decides about a program.
"""

from __future__ import annotations

import os

from tower.system.keeper.protocol import TOLD, TURNS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

CHUNK: Final = 1 << 16
"""Bytes taken from a turn's file at once: what an empty pipe holds."""


class Inlet:
    """The writing end. `reader` is the other end, for the program alone; `turn` is the last one that was begun."""

    __slots__ = ("_file", "_folder", "_unsent", "fd", "reader", "turn")

    def __init__(self, folder: int) -> None:
        """`folder` is a descriptor of the process's folder. Raises OSError."""
        self._folder = os.open(TURNS, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
        self.reader, self.fd = os.pipe()
        os.set_blocking(self.fd, False)
        self._file = -1
        self._unsent = b""
        self.turn = 0

    def begin(self, turn: int) -> bool:
        """Take a turn, durably; False when there is none of that number, or it cannot be had."""
        if not self.is_open or self.is_sending or turn <= self.turn:
            return False
        name, told = str(turn), f"{turn}{TOLD}"
        try:
            file = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=self._folder)
        except OSError:
            return False
        try:
            os.rename(name, told, src_dir_fd=self._folder, dst_dir_fd=self._folder)
            os.fsync(self._folder)
        except OSError:
            os.close(file)
            return False
        self._file = file
        self.turn = turn
        return True

    @property
    def is_sending(self) -> bool:
        """Whether something waits for the program to read."""
        return self._file >= 0 or bool(self._unsent)

    @property
    def is_open(self) -> bool:
        return self.fd >= 0

    def copy(self) -> bool:
        """Write what the pipe takes now; False when the program has closed its end."""
        try:
            while self.is_sending:
                if not self._unsent:
                    self._unsent = os.read(self._file, CHUNK)
                    if not self._unsent:
                        os.close(self._file)
                        self._file = -1
                        break
                self._unsent = self._unsent[os.write(self.fd, self._unsent) :]
        except BlockingIOError:
            return True
        except OSError:
            self.close()
            return False
        return True

    def close(self) -> None:
        """The end of file for the program. Doing so twice is fine."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        self._unsent = b""
        if self.is_open:
            os.close(self.fd)
            self.fd = -1
