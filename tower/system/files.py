"""Small files, read and written with care: what an agent may have put in their place is not trusted."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path
from typing import Final

from tower.core.errors import BusyError

SHORTAGES: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
"""What says nothing about a file: the machine cannot open any just now."""

MOST_AT_ONCE: Final = 1 << 30
"""Bytes that one system call is asked to copy."""

CANNOT_SHARE: Final = frozenset({errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP})
"""How a kernel refuses to copy from one file system to another within itself."""


def refuse_shortage(path: Path, error: OSError) -> None:
    """Raise `BusyError` where a file that cannot be opened just now must not be taken for none."""
    if error.errno in SHORTAGES:
        raise BusyError("shortage", f"cannot read {path}: {error.strerror}", "it is tried again") from error


def read_regular(path: Path, limit: int, *, tail: bool = False, is_evidence: bool = False) -> bytes | None:
    """At most `limit` bytes of a file, from its start or its end; None when there is no such regular file.

    Raises `BusyError` for evidence that a shortage of descriptors or memory keeps from being read.
    A symbolic link is not followed, a FIFO not waited for, a folder not taken for one: an agent may have made any.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if is_evidence:
            refuse_shortage(path, error)
        return None
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        os.close(descriptor)
        return None
    with os.fdopen(descriptor, "rb") as file:
        if tail and found.st_size > limit:
            file.seek(found.st_size - limit)
        return file.read(limit)


def write_private(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Write a file of mode 0600, whole or not at all for a reader. Raises `OSError`.

    Unless `durable`, a power cut may lose it: for what can be told from elsewhere.
    """
    scratch = path.with_name(f".{path.name}.new")
    with contextlib.suppress(FileNotFoundError):
        scratch.unlink()
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if durable:
                os.fsync(descriptor)
        scratch.rename(path)
    except OSError:
        with contextlib.suppress(OSError):
            scratch.unlink()
        raise
    if durable:
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make what was created, renamed or removed in a folder survive a power cut. Raises `OSError`."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def size_of(path: Path) -> int:
    """Size of a regular file in bytes; 0 when there is none."""
    try:
        found = path.lstat()
    except OSError:
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else 0


def copy_content(source: int, target: int) -> int:
    """Copy what is left of one open file into another, by sharing blocks where the file system can; how many bytes.

    Raises `OSError`.
    """
    copied = 0
    try:
        while count := os.copy_file_range(source, target, MOST_AT_ONCE):
            copied += count
    except OSError as error:
        if copied or error.errno not in CANNOT_SHARE:
            raise
        while count := os.sendfile(target, source, None, MOST_AT_ONCE):
            copied += count
    return copied
