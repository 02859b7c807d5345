"""The words for a tower that cannot be asked: nobody there, not ours, silent, cut off, or no tower at all.

Owns these errors and nothing else. Each says what was tried and what to do; none of them leads to anything being
removed, since silence is no proof of death.
"""

# Importing pathlib for one open() would be felt in each verb.
# ruff: noqa: PTH123

from __future__ import annotations

import socket
from collections.abc import Sequence

from tower.client.discover import Place
from tower.client.wire import peer_pid
from tower.core.errors import RefusedError, TowerError, UnreachableError

NOWHERE = "unreachable"
"""Code of an error that nobody was there at the first question."""

GONE = "gone"
"""Code of an error that a tower which answered a moment ago is not there any more."""

CUT = "cut"
"""Code of an error that an answer broke off."""


def nowhere(failed: Sequence[tuple[Place, OSError]], config: str | None, *, answered_before: bool) -> TowerError:
    """No place let us in. `config` is the configuration file of this folder, if there is one."""
    tried = "; ".join(f"{place.path} ({place.origin}): {_cause(error)}" for place, error in failed)
    if any(isinstance(error, PermissionError) for _, error in failed):
        return RefusedError(
            "socket-denied",
            f"cannot reach a tower that is yours to ask, tried {tried}",
            "run as the tower's own user, join the group that `socket_group` names, or name another --socket",
        )
    if answered_before:
        return UnreachableError(
            GONE, f"cannot reach the tower any more, tried {tried}", "it was stopped, or it crashed"
        )
    start = f"tower serve --config {config}" if config else "tower serve"
    return UnreachableError(
        NOWHERE,
        f"cannot reach a tower, tried {tried}",
        f"start it with `{start}`, or name the socket of a running one with --socket or $TOWER_SOCKET",
    )


def _cause(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def silent(path: str, seconds: float, link: socket.socket | None) -> UnreachableError:
    """Nothing came within `seconds`; `link` is the connection, or None when not even that was accepted."""
    what = "connected, but no answer came" if link else "the connection was not taken"
    return UnreachableError(
        "silent",
        f"cannot get an answer from the tower at {path}: {what} within {seconds:g} s",
        f"{_look_at(peer_pid(link) if link else None)}; nothing was removed",
    )


def _look_at(pid: int | None) -> str:
    """What the process table says about a tower that keeps silent, and what to do."""
    if pid is None:
        return "it may be stopped (SIGSTOP) or overloaded: look at its process and its log"
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            state = file.read().rpartition(b")")[2].split()[0].decode()
    except (OSError, IndexError):
        return f"its process {pid} is gone by now: try again"
    if state in "Tt":
        return f"its process {pid} is stopped: `kill -CONT {pid}` lets it go on"
    if state == "D":
        return f"its process {pid} waits for a disk or a network file system: look at `df` and `dmesg`"
    return f"its process {pid} lives (state {state}) but does not answer: look at its log, or try again"


def cut(path: str, method: str, error: Exception) -> UnreachableError:
    """The answer broke off. After anything but a GET nobody knows whether it was carried out."""
    hint = "it may be stopping or starting anew: try again"
    if method != "GET":
        hint = "whether it was carried out is not known: `tower queue` and `tower ps -a` show it"
    return UnreachableError(CUT, f"cannot read the answer of the tower at {path}: {error}", hint)


def foreign(path: str, what: str) -> UnreachableError:
    """Something answers, but not as a tower would."""
    return UnreachableError(
        "not-a-tower",
        f"cannot understand what answers at {path}: {what}",
        "is that the socket of a tower, and of this version? --socket names another",
    )
