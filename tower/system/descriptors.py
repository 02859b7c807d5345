"""How many files this process may have open, and how near it is to that."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Final

SCARCE: Final = 0.8
"""Share of the limit from which on it is said: each run takes a handful, so what is left is used up soon."""


def raise_descriptor_limit() -> int:
    """Let this process open as many files as it may at all, and return the soft limit that it was started with.

    Programs that still use select() break above 1024 descriptors, so whoever starts programs gives that back.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return soft


def shortage() -> str | None:
    """A sentence when few descriptors are left; None when there is no need to worry."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    try:
        used = sum(1 for _ in Path("/proc/self/fd").iterdir())
    except OSError:
        return f"no file descriptor is left of {limit}; raise LimitNOFILE= of the service"
    if used < SCARCE * limit:
        return None
    return f"{used} of {limit} file descriptors are in use; raise LimitNOFILE= of the service"
