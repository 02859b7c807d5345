"""A control group of a test's own, where this machine lets one be made: as root, on a writable cgroup v2."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tower.system.cgroups import discard, kill, members


def _mount() -> Path | None:
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields, _, kind = line.partition(" - ")
        if kind.startswith("cgroup2 "):
            return Path(fields.split()[4])
    return None


@contextmanager
def group() -> Iterator[Path]:
    """An empty group, gone with all that is in it at the end. Skips the test where there can be none."""
    mount = _mount()
    if mount is None:
        pytest.skip("there is no cgroup v2")
    made = mount / f"tower-test-{os.getpid()}-{time.monotonic_ns()}"
    try:
        made.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error.strerror}")
    try:
        yield made
    finally:
        kill(str(made))
        deadline = time.monotonic() + 10
        while list(members(str(made))) and time.monotonic() < deadline:
            time.sleep(0.01)
        discard(str(made))
