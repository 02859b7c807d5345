"""Room on a disk. What is done when there is too little belongs to admission."""

from __future__ import annotations

import os
from pathlib import Path


def free_bytes(path: Path) -> int:
    """Bytes that an ordinary user may still write on the file system that holds `path`.

    Blocks reserved for root do not count, whoever asks: a database that root fills to the last block cannot be
    repaired. Raises `OSError` when `path` does not exist or cannot be reached.
    """
    room = os.statvfs(path)
    return room.f_bavail * room.f_frsize
