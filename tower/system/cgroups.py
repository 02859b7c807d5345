"""The part of the control group hierarchy (cgroup v2) that was given to this tower, if any, and what is left in it.

Whoever runs Tower gives it a part of its own: `Delegate=yes` in a systemd unit. Where nobody did, none is touched, even
if it could be. A run's own group in it is made by its keeper (`keeper.group`).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tower.system.keeper.group import KILL, MEMBERS, remove

PREFIX: Final = "tower-"
"""What the name of a run's group begins with; its ULID follows."""

MARKS: Final = ("user.delegate", "trusted.delegate")
"""Extended attributes by which systemd says that a group was given away."""

FIRST_NAMESPACE: Final = 0xEFFFFFFB
"""Inode of the machine's own cgroup namespace (`PROC_CGROUP_INIT_INO`); a container has another."""


def delegated() -> Path | None:
    """The group that this process is in, when it was given away and groups can be made in it; else None."""
    own = _own_group()
    return own if own is not None and _was_given_away(own) and _can_be_divided(own) else None


def group_of(given: Path | None, ulid: str) -> str | None:
    """Where the group of a run is to be made."""
    return None if given is None else str(given / f"{PREFIX}{ulid}")


def members(group: str) -> Iterator[int]:
    """Pids of all that live in a group of a run and below it; none when it is not there."""
    for folder, _, _ in os.walk(group):
        with contextlib.suppress(OSError, ValueError):
            yield from map(int, Path(folder, MEMBERS).read_text().split())


def kill(group: str) -> None:
    """KILL to every process in a group of a run, where the kernel can do that; `members` finds what it cannot."""
    with contextlib.suppress(OSError):
        Path(group, KILL).write_text("1")


def discard(group: str) -> None:
    """Remove the group of a run, when nothing lives in it."""
    remove(os.fsencode(group))


def _own_group() -> Path | None:
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
        own = next(line.removeprefix("0::") for line in lines if line.startswith("0::"))
        mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    except (OSError, StopIteration):
        return None
    for mount in mounts:
        fields, _, kind = mount.partition(" - ")
        root, point = fields.split()[3:5]
        if kind.startswith("cgroup2 ") and Path(own).is_relative_to(root):
            return Path(point) / Path(own).relative_to(root)
    return None


def _was_given_away(group: Path) -> bool:
    if any(_is_marked(one, mark) for one in (group, group.parent) for mark in MARKS):
        return True
    try:
        user, above = os.geteuid(), group.parent.stat().st_uid
        if user != 0 and group.stat().st_uid == user != above:
            return True
        # The top of a container's own hierarchy: nobody else is in it.
        is_top = Path("/proc/self/cgroup").read_text().splitlines()[-1] == "0::/"
        return is_top and Path("/proc/self/ns/cgroup").stat().st_ino != FIRST_NAMESPACE
    except OSError:
        return False


def _is_marked(group: Path, mark: str) -> bool:
    try:
        return os.getxattr(group, mark) == b"1"
    except OSError:
        return False


def _can_be_divided(group: Path) -> bool:
    """Tried, since rights alone do not tell: the hierarchy may be mounted read-only."""
    probe = group / f"{PREFIX}probe-{os.getpid()}"
    try:
        probe.mkdir(0o755)
        probe.rmdir()
    except OSError:
        return False
    return os.access(group / MEMBERS, os.W_OK)
