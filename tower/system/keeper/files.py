"""Files that the keeper makes in the folder of its run, through a descriptor of that folder."""

from __future__ import annotations

import os


def create(name: str, folder: int) -> int:
    """A new file of mode 0600; returns its descriptor. Raises OSError.

    What stands under the name goes first: the program can write to this folder where no sandbox forbids it, and
    a pipe or a link put there would stop the keeper or lead it elsewhere.
    """
    try:  # noqa: SIM105 - contextlib would cost more than all of this module
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        pass
    return os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=folder)


def write_all(fd: int, data: bytes) -> None:
    """Write everything. Raises OSError."""
    while data:
        data = data[os.write(fd, data) :]
