"""Processes of a run whose keeper is gone: found by what they cannot all have shed, and ended.

What a killed keeper leaves comes to the tower, its subreaper, or to the system's first process when the tower was
gone too. A process that cleared its environment and left its session is then only found in the first case. The
tower's own helpers are told from such orphans by their session: they stay in the tower's.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Collection
from typing import Final

import anyio
import anyio.to_thread

from tower.system import procfs
from tower.system.keeper.protocol import NAME

MARKER: Final = "LAYOVER_RUN_ID"
"""The variable that carries a run's id in the environment of all its processes."""

GIVE_UP_AFTER: Final = 10.0
"""Seconds of killing after which what still lives is reported."""

KILL_AGAIN: Final = 0.02


async def end_survivors(run: str, *, known_sessions: Collection[tuple[int, int]] = ()) -> list[int]:
    """End every process of `run`; returns the pids of those that would not end.

    `known_sessions` are pid and start ticks, of this boot, of agent programs that were recorded for the run: each
    led a session. Only for a run whose keeper is confirmed gone. A process whose start does not fit is left alone.
    """
    with anyio.move_on_after(GIVE_UP_AFTER):
        while found := await anyio.to_thread.run_sync(_find, run, known_sessions):
            for pid, ticks in found.items():
                _kill(pid, ticks)
            await anyio.sleep(KILL_AGAIN)
            reap_orphans()
        return []
    return sorted(_find(run, known_sessions))


def reap_orphans() -> None:
    """Wait for what runs have left to this process and what has ended since; the statuses of helpers stay theirs."""
    for pid in procfs.children(os.getpid()):
        if procfs.is_zombie(pid) and _was_left_by_a_keeper(pid):
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                continue


def _find(run: str, known_sessions: Collection[tuple[int, int]]) -> dict[int, int]:
    """Pid -> start ticks of the living processes of the run."""
    me = os.getpid()
    spared = {me, *(procfs.ancestors(me) or ())}
    marker = f"{MARKER}={run}".encode()
    sessions = {leader: ticks for leader, ticks in known_sessions if procfs.start_ticks(leader) in (ticks, None)}
    found: dict[int, int] = {}
    for pid in procfs.processes():
        ticks = procfs.start_ticks(pid)
        if ticks is None or pid in spared or procfs.is_zombie(pid):
            continue
        if (
            marker in procfs.environ(pid)
            or _is_of_session(pid, ticks, sessions)
            or (procfs.parent(pid) == me and _was_left_by_a_keeper(pid))
        ):
            found[pid] = ticks
    for pid in tuple(found):
        for below in procfs.descendants(pid):
            ticks = procfs.start_ticks(below)
            if ticks is not None and not procfs.is_zombie(below):
                found[below] = ticks
    return found


def _is_of_session(pid: int, ticks: int, sessions: dict[int, int]) -> bool:
    """Whether it belongs to a session of the run. A number used again is told by the leader, or by its age."""
    began = sessions.get(procfs.session(pid) or 0)
    return began is not None and ticks >= began and procfs.has_no_new_privs(pid)


def _was_left_by_a_keeper(pid: int) -> bool:
    """Whether a child of this process was once below a keeper: it can gain no rights, and has its own session."""
    me = os.getpid()
    argv = procfs.cmdline(pid)
    return (
        procfs.session(pid) != procfs.session(me)
        and procfs.has_no_new_privs(pid)
        and argv is not None
        and NAME not in argv
        and argv != procfs.cmdline(me)  # a keeper between fork and exec
    )


def _kill(pid: int, ticks: int) -> None:
    """KILL to exactly this process, by a descriptor that cannot come to mean another. It wakes stopped ones too."""
    try:
        fd = os.pidfd_open(pid)
    except OSError:
        return
    try:
        if procfs.start_ticks(pid) == ticks:
            signal.pidfd_send_signal(fd, signal.SIGKILL)
    except OSError:
        return
    finally:
        os.close(fd)
