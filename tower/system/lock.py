"""The lock that makes a second tower on one state folder impossible.

It lies on the folder itself: the kernel drops it with the last descriptor, so it cannot go stale, and there is no
file whose removal would let another in. Only its holder may touch the database and the socket's path.
"""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tower.core.errors import BusyError, InvalidError

ARGV_SHOWN: Final = 200
"""Characters of the holder's command line that a refusal quotes."""


class StateLock:
    """The lock, held. Whoever has one of these is the one tower of that folder, until `release`."""

    def __init__(self, folder: Path, descriptor: int) -> None:
        self.folder = folder
        self._descriptor = descriptor
        self._identity = _identity(os.fstat(descriptor))

    def covers(self, folder: Path) -> bool:
        """Whether `folder` is the locked one, by whatever name.

        False for the folder's own old name when it was moved away or removed under the living tower: then another
        tower could lock what is there now, and this one should end.
        """
        try:
            return _identity(folder.stat()) == self._identity
        except OSError:
            return False

    def release(self) -> None:
        """Let another tower in. Releasing twice is fine."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def lock_state(folder: Path) -> StateLock:
    """Take the lock on a state folder at once, or raise.

    Raises `BusyError` when another process holds it, naming that process where the kernel tells, and `InvalidError`
    when the folder cannot be opened or lies on a file system without such locks.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise _cannot(folder, error) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = _holder(os.fstat(descriptor))
        os.close(descriptor)
        raise BusyError(
            "locked",
            f"cannot use the state folder {folder}: {holder} holds it",
            "two towers never share one; ask that one (`tower status`), stop it, or name another [layover] state_dir",
        ) from None
    except OSError as error:
        os.close(descriptor)
        raise _cannot(folder, error) from error
    return StateLock(folder, descriptor)


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def _cannot(folder: Path, error: OSError) -> InvalidError:
    words = (error.strerror or str(error)).lower()
    # Network file systems emulate flock by byte ranges and want a file that is open for writing: EBADF, on a folder.
    if error.errno in (errno.EBADF, errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL):
        words = f"its file system has no locks on folders ({words})"
    return InvalidError(
        "state-lock", f"cannot lock the state folder {folder}: {words}", "name a folder on a local disk in state_dir"
    )


def _holder(folder: os.stat_result) -> str:
    """Who holds the lock, in words, read from the kernel's own list."""
    # 1: FLOCK  ADVISORY  WRITE 4242 fe:00:1310721 0 EOF
    try:
        lines = Path("/proc/locks").read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    for line in lines:
        fields = line.split()
        if len(fields) < 6 or fields[1] != "FLOCK":
            continue
        major, minor, inode = fields[5].split(":")
        # Btrfs and overlays show another device here than stat does, and an inode alone is close to certain.
        same_device = (int(major, 16), int(minor, 16)) == (os.major(folder.st_dev), os.minor(folder.st_dev))
        if int(inode) == folder.st_ino and (same_device or int(major, 16) == 0):
            return _process(int(fields[4]))
    return "another tower, one of another container it seems,"


def _process(pid: int) -> str:
    try:
        argv = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        argv = b""
    shown = argv.rstrip(b"\0").replace(b"\0", b" ").decode(errors="replace")
    printable = "".join(character if character.isprintable() else "?" for character in shown)
    return f"process {pid} ({printable[:ARGV_SHOWN]})" if printable else f"process {pid}"
