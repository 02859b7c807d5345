"""File systems that nobody can write to, for tests that run as root."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

needs_mounts = pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")


@contextmanager
def mounted_read_only(folder: Path) -> Iterator[None]:
    """Meanwhile what is in `folder` cannot be written, by nobody: it is mounted over itself."""
    done = subprocess.run(["mount", "--bind", folder, folder], capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"no mounts here: {done.stderr.decode()}")
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", folder], check=True)
        yield
    finally:
        subprocess.run(["umount", folder], check=True)
