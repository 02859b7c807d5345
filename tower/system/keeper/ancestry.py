"""Whether a process lives below a keeper, and so belongs to a run: no such process is ever a person or a tower.

A keeper is the subreaper of its run, so every descendant leads to it by its parents, whatever it did to its
session, its parent or its environment. Both doors ask this: the keeper's own, and the tower's control socket.
"""

from __future__ import annotations

import os

from tower.system import procfs
from tower.system.keeper.protocol import NAME


class AncestryError(Exception):
    """The ancestors of a process cannot be read, so that nothing can be said for it."""


def run_above(pid: int, socket_dir: str | int) -> str | None:
    """The run whose keeper, with its socket in `socket_dir`, is this process or above it; None when there is none.

    `socket_dir` is a path or a descriptor. A keeper names its folder by device and inode too, so that a run which
    renames the folder is still known. Raises AncestryError, and OSError when the folder is not there.
    """
    above = procfs.ancestors(pid) if pid > 0 else None
    if above is None:
        raise AncestryError(f"the ancestors of process {pid} cannot be read")
    place = place_of(socket_dir)
    for at in (pid, *above):
        argv = procfs.cmdline(at)
        if argv is None and procfs.is_of_another_user(at):
            # Hidden by `hidepid`. A keeper is never of another user than what runs below it.
            continue
        if argv is None:
            raise AncestryError(f"the command line of process {at} cannot be read")
        if NAME in argv[:-3]:
            folder, run, its_place = argv[argv.index(NAME) + 1 :][:3]
            if its_place == place or folder == socket_dir:
                return run
    return None


def place_of(folder: str | int) -> str:
    """What a folder is called by the kernel, whatever its path: `DEVICE:INODE`. Raises OSError."""
    found = os.stat(folder)
    return f"{found.st_dev}:{found.st_ino}"
