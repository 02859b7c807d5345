"""What a keeper left in the folder of its run, read: `start` and `exit.json`; and a start voided.

A program that no sandbox confines can write to this folder. So every field is checked, and a record that is no
record counts as none.
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
from pathlib import Path
from typing import Any, Final

from tower.core.errors import BusyError
from tower.core.launch import KEEPER_PROTOCOL, ExitRecord, StartRecord
from tower.system import procfs
from tower.system.keeper.protocol import EXIT, START
from tower.system.keeper.records import BLOCK, EXIT_DRAFTS, create_start

SHORTAGES: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO})

_Fields = dict[str, tuple[type, ...]]

_START_FIELDS: Final[_Fields] = {
    "void": (bool,),
    "pid": (int,),
    "ticks": (int,),
    "boot_id": (str,),
    "protocol": (int,),
}
_EXIT_FIELDS: Final[_Fields] = {
    "code": (int, type(None)),
    "signal": (int, type(None)),
    "ended_at": (float, int),
    "cpu_seconds": (float, int),
    "peak_memory": (int,),
    "out_bytes": (int,),
    "err_bytes": (int,),
    "limit": (str, type(None)),
    "stopping": (str, type(None)),
    "start_error": (str, type(None)),
    "swept": (bool,),
    "left": (list,),
    "log_errors": (int,),
}


def read_start(folder: str | Path) -> StartRecord | None:
    """Who decided about the start of the run in `folder`; None when nobody has."""
    fields = _read(Path(folder, START), _START_FIELDS)
    return StartRecord(**fields) if fields else None


def started_at(folder: str | Path) -> float | None:
    """When the start was decided, in seconds since the epoch; None when it was not."""
    try:
        return Path(folder, START).lstat().st_mtime
    except OSError:
        return None


def last_sign(folder: str | Path) -> float | None:
    """When the run in `folder` last printed something, in seconds since the epoch; None when it never did."""
    signs = [log.lstat().st_mtime for log in Path(folder).glob("std*.log*") if log.lstat().st_size]
    return max(signs, default=None)


def read_exit(folder: str | Path) -> ExitRecord | None:
    """How the program of the run in `folder` ended; None while it runs, and when its end was not recorded."""
    fields = _read(Path(folder, EXIT), _EXIT_FIELDS)
    if not fields or not all(_is(pid, (int,)) for pid in fields["left"]):
        return None
    return ExitRecord(**fields | {"left": tuple(fields["left"])})


def void_start(folder: str | Path) -> bool:
    """Decide that no keeper may start this run any more; False when the start was decided before.

    Raises OSError: then nothing is decided.
    """
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        pid = os.getpid()
        ticks = procfs.start_ticks(pid) or 0
        return create_start(fd, void=True, pid=pid, ticks=ticks, boot_id=procfs.boot_id(), protocol=KEEPER_PROTOCOL)
    finally:
        os.close(fd)


def remove_drafts(folder: str | Path) -> None:
    """Remove what a keeper that was killed had set aside, or half written. Only where no keeper is alive any more."""
    starts = (path.name for path in Path(folder).glob(f"{START}.*"))
    for name in (*EXIT_DRAFTS, *starts):
        with contextlib.suppress(OSError):
            Path(folder, name).unlink()


def _read(path: Path, wanted: _Fields) -> dict[str, Any]:
    """The wanted fields, all of them of the right kind, or nothing. Unknown ones are a newer keeper's.

    Raises `BusyError` when the machine cannot tell just now: a record that is there must not be taken for none.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in SHORTAGES:
            raise BusyError("shortage", f"cannot read {path}: {error.strerror}", "it is tried again") from error
        return {}
    try:
        found = json.loads(os.read(fd, BLOCK))
    except (OSError, ValueError, RecursionError):
        return {}
    finally:
        os.close(fd)
    if not isinstance(found, dict) or not all(_is(found.get(name, ...), kinds) for name, kinds in wanted.items()):
        return {}
    return {name: found[name] for name in wanted}


def _is(value: object, kinds: tuple[type, ...]) -> bool:
    """Whether a value is of one of the kinds; True is no number here, and neither is infinity."""
    if isinstance(value, bool):
        return bool in kinds
    return isinstance(value, kinds) and not (isinstance(value, float) and not math.isfinite(value))
