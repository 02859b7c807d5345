"""Asking systemd what is being done to this unit.

A SIGTERM looks the same whether somebody restarts the service or stops it; only the service manager knows which job
it carries out. Nothing is guessed from the environment: without an answer, it is a stop.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import anyio.to_thread

ANSWER_SEC: Final = 3.0
"""systemd answers in milliseconds; past this it is not going to."""


def unit_of(cgroup: str) -> tuple[str, bool] | None:
    """The unit that `/proc/self/cgroup` names (`0::/system.slice/tower.service`); whether a user's manager runs it.

    Where the machine has control groups of version 1, systemd's own hierarchy says so (`1:name=systemd:/...`).
    """
    groups = {name: path for _, name, path in (line.split(":", 2) for line in cgroup.splitlines())}
    path = groups.get("") or groups.get("name=systemd", "")
    parts = [part for part in path.split("/") if part.endswith(".service")]
    # Below a user's manager its own unit stands first (`user@1000.service/app.slice/tower.service`).
    units = [part for part in parts if not part.startswith("user@")]
    return (units[0], len(units) < len(parts)) if units else None


def job_type(listed: str, unit: str) -> str | None:
    """The type of the unit's job in the output of `systemctl list-jobs --no-legend` (restart, stop, start ...)."""
    for line in listed.splitlines():
        fields = line.split()
        if len(fields) >= 3 and fields[1] == unit:
            return fields[2]
    return None


async def is_restart(environ: Mapping[str, str]) -> bool:
    """Whether systemd is restarting this very unit; False without systemd, or when it does not say."""
    if "INVOCATION_ID" not in environ:
        return False
    return await anyio.to_thread.run_sync(_ask)


def _ask() -> bool:
    try:
        named = unit_of(Path("/proc/self/cgroup").read_text())
        if named is None:
            return False
        unit, of_user = named
        scope = ["--user"] if of_user else []
        asked = ["systemctl", *scope, "list-jobs", "--no-legend", "--no-pager", "--plain"]
        listed = subprocess.run(asked, capture_output=True, text=True, timeout=ANSWER_SEC, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return False
    return job_type(listed, unit) == "restart"
