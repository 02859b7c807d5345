"""The two records that a keeper leaves in the folder of its run: `start` and `exit.json`.

Reading them is the tower's part (`system.runrecords`), which also uses `create_start` to void a start.
"""

from __future__ import annotations

import os

from tower.system.keeper.files import create, write_all
from tower.system.keeper.protocol import EXIT, START

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final

    Value = int | float | str | bool | list[int] | None

BLOCK: Final = 4096
"""Bytes set aside for an exit record; the longest (see `MOST_LEFT`) takes less than half of it."""

MOST_LEFT: Final = 100
"""Pids that a record lists at most."""

LONGEST_TEXT: Final = 300

EXIT_DRAFTS: Final = (f"{EXIT}.2", f"{EXIT}.1")
"""Under which names the blocks for the exit record are set aside; the last one is used first."""


def encode(fields: Mapping[str, Value]) -> bytes:
    """A flat JSON object in ASCII. The `json` package would double the time that a keeper takes to start."""
    return ("{" + ",".join(f'"{name}":{_value(value)}' for name, value in fields.items()) + "}\n").encode("ascii")


def _value(value: Value) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        plain = value.encode("ascii", "backslashreplace").decode("ascii")[:LONGEST_TEXT]
        printable = "".join(char if char.isprintable() else " " for char in plain)
        return '"' + printable.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, list):
        return "[" + ",".join(map(str, value[:MOST_LEFT])) + "]"
    return repr(value)


def create_start(folder: int, *, void: bool, pid: int, ticks: int, boot_id: str, protocol: int) -> bool:
    """Decide, durably, whether the program of this run may start: True for the one that creates the record.

    `folder` is a descriptor of the run's folder. The record appears whole or not at all: it is written under
    another name and linked, which fails when the name is taken. Raises OSError when nothing could be decided.
    """
    fields: dict[str, Value] = {
        "void": void,
        "pid": pid,
        "ticks": ticks,
        "boot_id": boot_id,
        "protocol": protocol,
    }
    draft = f"{START}.{pid}"
    fd = create(draft, folder)
    try:
        write_all(fd, encode(fields))
        os.fsync(fd)
        os.link(draft, START, src_dir_fd=folder, dst_dir_fd=folder)
    except FileExistsError:
        return False
    finally:
        os.close(fd)
        os.unlink(draft, dir_fd=folder)
    os.fsync(folder)
    return True


def exit_fields(
    *,
    ended_at: float,
    status: int | None = None,
    usage: tuple[float, int] = (0.0, 0),
    sizes: tuple[int, int] = (0, 0),
    limit: str | None = None,
    stopping: str | None = None,
    start_error: str | None = None,
    swept: bool = True,
    left: list[int] | None = None,
    log_errors: int = 0,
) -> dict[str, Value]:
    """The fields of `core.launch.ExitRecord`. `status` is a wait status, `usage` CPU seconds and bytes of memory."""
    result = None if status is None else os.waitstatus_to_exitcode(status)
    return {
        "code": result if result is not None and result >= 0 else None,
        "signal": -result if result is not None and result < 0 else None,
        "ended_at": ended_at,
        "cpu_seconds": round(usage[0], 6),
        "peak_memory": usage[1],
        "out_bytes": sizes[0],
        "err_bytes": sizes[1],
        "limit": limit,
        "stopping": stopping,
        "start_error": start_error,
        "swept": swept,
        "left": left or [],
        "log_errors": log_errors,
    }


class ExitFile:
    """`exit.json`, written at most twice: at the exit, and when nothing of the run is left.

    The blocks for both are taken when this is made, so that a disk which fills up later cannot lose an exit.
    """

    __slots__ = ("_drafts", "_folder", "is_written")

    def __init__(self, folder: int) -> None:
        self._folder = folder
        self.is_written = False
        self._drafts: list[tuple[str, int]] = []
        for name in EXIT_DRAFTS:
            fd = create(name, folder)
            self._drafts.append((name, fd))
            os.posix_fallocate(fd, 0, BLOCK)

    def write(self, fields: Mapping[str, Value], *, is_last: bool = False) -> None:
        """Put the record in place, whole and durable. Raises OSError.

        With the last one goes what was set aside and not needed, so that a power cut does not bring it back.
        """
        name, fd = self._drafts.pop()
        data = encode(fields)
        write_all(fd, data)
        os.ftruncate(fd, len(data))
        os.fsync(fd)
        os.close(fd)
        os.rename(name, EXIT, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        self.is_written = True
        if is_last:
            self.close()
        os.fsync(self._folder)

    def close(self) -> None:
        """Give back what was set aside and not needed."""
        while self._drafts:
            name, fd = self._drafts.pop()
            os.close(fd)
            try:  # noqa: SIM105
                os.unlink(name, dir_fd=self._folder)
            except OSError:  # the program can remove what stands here
                pass
