"""The service below a real systemd, and the image in a real container engine. As root: `pytest -m slow tests/service`.

Each script makes its own system, carries its checks out there and prints a table; here only its verdict counts.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("script", "programs"),
    [
        ("systemd_boot.sh", ["mmdebstrap", "systemd-nspawn", "unshare", "tar"]),
        ("container.sh", ["mmdebstrap", "podman", "git"]),
    ],
)
def test_every_check_of_the_table_is_ok(script: str, programs: list[str]) -> None:
    """B010: runs through restarts; B011: the time to stop; B013: 200 orphans below each kind of first process."""
    if os.geteuid() != 0:
        pytest.skip("only root can boot a system or use control groups")
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    done = subprocess.run(
        [HERE / script],
        env=os.environ | {"PYTHON": sys.executable},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
