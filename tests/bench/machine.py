"""Where the measuring is done: the machine in one line, and a folder on a real disk."""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

VOLATILE: Final = ("tmpfs", "ramfs", "overlay")
"""File systems where a flush costs nothing, or something else than on the disk below."""


def place() -> Path:
    """Where folders are made: `TOWER_BENCH_DIR`, else `/var/tmp`, which is a disk where `/tmp` often is memory."""
    return Path(os.environ.get("TOWER_BENCH_DIR", "/var/tmp"))


@contextmanager
def folder() -> Iterator[Path]:
    """A folder for one benchmark. Its name is short: sockets stand in it."""
    made = Path(tempfile.mkdtemp(prefix="tb-", dir=place()))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def describe(where: Path) -> str:
    """What a reader must know to compare two tables."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / (1 << 30)
    kind = file_system(where)
    words = [
        f"{os.cpu_count()} cores ({platform.machine()})",
        f"{memory:.0f} GiB",
        f"Linux {platform.release()}",
        f"Python {platform.python_version()}",
        f"{kind} at {where}" + (": NOT A DISK, durable means nothing here" if kind in VOLATILE else ""),
        f"load {os.getloadavg()[0]:.1f} before",
    ]
    return ", ".join(words)


def file_system(where: Path) -> str:
    """The type of the file system that a path is on."""
    real = f"{where.resolve()}/"
    best, kind = "", "unknown"
    for mount in Path("/proc/self/mounts").read_text().splitlines():
        _, point, type_, *_ = mount.split()
        if real.startswith(point.rstrip("/") + "/") and len(point) >= len(best):
            best, kind = point, type_
    return kind
