"""The control group of one run, where the tower was given a part of the hierarchy: the program and all that it starts.

It has no controllers, so nothing is limited by it; a process leaves it neither by a fork nor by a new session. The
keeper stays outside, and its sweep of the tree stays too: a program of the same user can move itself elsewhere.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

MEMBERS: Final = "cgroup.procs"
KILL: Final = "cgroup.kill"
"""There from Linux 5.14 on."""


class Group:
    """A new group at `path`. Raises OSError when it cannot be made, or nothing could be put into it."""

    __slots__ = ("_kill", "_path", "members")

    def __init__(self, path: bytes) -> None:
        os.mkdir(path, 0o755)
        self._path = path
        try:
            folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                # Held open: when it is to be killed there may be no descriptor left.
                self.members = os.open(MEMBERS, os.O_WRONLY | os.O_CLOEXEC, dir_fd=folder)
                self._kill = _open(KILL, folder)
            finally:
                os.close(folder)
        except OSError:
            remove(path)
            raise

    def kill(self) -> None:
        """KILL to every member at once, also to those that are being forked just now."""
        if self._kill >= 0:
            try:
                os.write(self._kill, b"1")
            except OSError:
                return

    def discard(self) -> None:
        """Take it away; what lives in it keeps it there."""
        os.close(self.members)
        if self._kill >= 0:
            os.close(self._kill)
        remove(self._path)


def remove(path: bytes) -> None:
    """Remove a group and those that were made below it. Nothing happens to one that has members."""
    try:
        below = [entry.path for entry in os.scandir(path) if entry.is_dir(follow_symlinks=False)]
        for inner in below:
            remove(inner)
        os.rmdir(path)
    except OSError:
        return


def _open(name: str, folder: int) -> int:
    try:
        return os.open(name, os.O_WRONLY | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return -1
