"""Memory files and the logbook on disk: read within bounds, replaced whole, appended to whole.

What an agent may have put in their place (links, pipes, folders) is not followed. That two writers of the tower do
not meet is left to the caller; what stands in an entry is `core.notebook`'s.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Final

from tower.core.errors import BusyError, RefusedError
from tower.system.files import read_regular, size_of, sync_folder, write_private

FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
PRIVATE: Final = 0o700


def read_end(path: Path, most: int) -> tuple[bytes, int]:
    """The last `most` bytes of a file and the size of the whole; nothing of what is no regular file."""
    return read_regular(path, most, tail=True) or b"", size_of(path)


def replace(path: Path, data: bytes) -> None:
    """Put `data` in the place of a file, durably. Raises `BusyError` on a full disk, `RefusedError` otherwise."""
    try:
        path.parent.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
        write_private(path, data)
    except OSError as error:
        raise _cannot_write(path, error) from error


def append(path: Path, data: bytes) -> None:
    """Add `data` to the end of a file, durably, all of it or nothing. Raises as `replace` does."""
    try:
        path.parent.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
        _append(path, data)
    except OSError as error:
        raise _cannot_write(path, error) from error


def _append(path: Path, data: bytes) -> None:
    is_new = not os.path.lexists(path)
    how = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(path, how, 0o600)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "it is no regular file")
        try:
            left = memoryview(data)
            while left:
                left = left[os.write(descriptor, left) :]
        except OSError:
            os.ftruncate(descriptor, found.st_size)
            raise
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    if is_new:
        sync_folder(path.parent)


def _cannot_write(path: Path, error: OSError) -> BusyError | RefusedError:
    words = (error.strerror or str(error)).lower()
    if error.errno in FULL:
        return BusyError("disk-full", f"cannot write {path.name}: the disk is full", "it was not written; try later")
    if error.errno == errno.ELOOP:
        words = "it is a symbolic link"
    return RefusedError("notebook", f"cannot write {path}: {words}", "a person has to look at that file")
