"""A file that only takes up room, to be thrown off when the disk is full.

A full disk refuses even a small UPDATE, so without it a run that ends just then could not be settled. Thrown off, it
leaves room for what must be written; nothing new is accepted until it has been taken on again.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from tower.system.disk import free_bytes

BALLAST_BYTES: Final = 4 << 20
"""Room to settle every run alive: one settling transaction appends some 40 KiB to the write-ahead log."""


class Ballast:
    """The ballast of one state folder."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.is_thrown_off = False
        """The disk was full, and still is for all we know: nothing new is accepted."""

    def take(self) -> bool:
        """Take up the room, if as much again stays free beside it. Returns whether it is aboard."""
        try:
            if not self._path.exists() and free_bytes(self._path.parent) < 2 * BALLAST_BYTES:
                return False
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(descriptor, 0, BALLAST_BYTES)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError:
            return False
        self.is_thrown_off = False
        return True

    def throw_off(self) -> None:
        """Make room, now."""
        self.is_thrown_off = True
        self._path.unlink(missing_ok=True)
