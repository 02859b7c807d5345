"""Processes of a run whose keeper is gone: found by what they cannot all have shed, and ended.

What a killed keeper leaves comes to the tower, its subreaper, or to the system's first process when the tower was
gone too. A process that cleared its environment and left its session is then only found in the first case, or where
the run had a control group.
"""

from __future__ import annotations

import os
import signal
from typing import Final

import anyio
import anyio.to_thread

from tower.system import cgroups, procfs
from tower.system.keeper.protocol import NAME

MARKER: Final = "LAYOVER_RUN_ID"
"""The variable that carries a run's id in the environment of all its processes."""

GIVE_UP_AFTER: Final = 10.0
"""Seconds of killing after which what still lives is reported."""

KILL_AGAIN: Final = 0.02
"""Seconds between two looks."""

CLEAN_LOOKS: Final = 2
"""Looks in a row that must find nothing: a process that executes a program just then shows no environment."""


def survivors(run: str, session: tuple[int, int] | None = None, group: str | None = None) -> dict[int, int]:
    """Pid -> start ticks of the living processes of `run`. Takes some 0.1 ms for each process of the machine.

    `session` is pid and start ticks, of this boot, of the agent program that was recorded for the run: it led a
    session. A process whose start does not fit is none of the run's. `group` is the run's control group.
    """
    me = os.getpid()
    spared = {me, *(procfs.ancestors(me) or ())}
    marker = f"{MARKER}={run}".encode()
    grouped = set() if group is None else set(cgroups.members(group))
    found: dict[int, int] = {}
    for pid in procfs.processes():
        ticks = _alive_since(pid)
        if ticks is None or pid in spared:
            continue
        if (
            pid in grouped
            or marker in procfs.environ(pid)
            or (session is not None and _is_of_session(pid, ticks, session))
            or (procfs.parent(pid) == me and _was_left_by_a_keeper(pid))
        ):
            found[pid] = ticks
    for pid in tuple(found):
        below = {child: _alive_since(child) for child in procfs.descendants(pid)}
        found.update((child, ticks) for child, ticks in below.items() if ticks is not None)
    return found


async def end_survivors(run: str, session: tuple[int, int] | None = None, group: str | None = None) -> tuple[int, ...]:
    """End every process of `run`, as `survivors` finds them; returns the pids of those that would not end.

    Only for a run whose keeper is confirmed gone.
    """
    deadline = anyio.current_time() + GIVE_UP_AFTER
    found: dict[int, int] = {}
    clean_looks = 0
    while clean_looks < CLEAN_LOOKS and anyio.current_time() < deadline:
        if group is not None:
            cgroups.kill(group)
        found = await anyio.to_thread.run_sync(survivors, run, session, group)
        clean_looks = 0 if found else clean_looks + 1
        for pid, ticks in found.items():
            _kill(pid, ticks)
        await anyio.sleep(KILL_AGAIN)
        reap_orphans()
    if group is not None:
        cgroups.discard(group)
    return tuple(sorted(found))


def reap_orphans() -> None:
    """Wait for what runs have left to this process and what has ended since; the statuses of helpers stay theirs."""
    for pid in procfs.children(os.getpid()):
        if procfs.is_zombie(pid) and _was_left_by_a_keeper(pid):
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                continue


def _alive_since(pid: int) -> int | None:
    return None if procfs.is_zombie(pid) else procfs.start_ticks(pid)


def _is_of_session(pid: int, ticks: int, session: tuple[int, int]) -> bool:
    """Whether it belongs to this session. A number that another leader has by now is told by that one's start."""
    leader, began = session
    return (
        procfs.session(pid) == leader
        and procfs.start_ticks(leader) in (began, None)
        and ticks >= began
        and procfs.has_no_new_privs(pid)
    )


def _was_left_by_a_keeper(pid: int) -> bool:
    """Whether a child of this process was once below a keeper: it can gain no rights, and has its own session.

    Where the tower may gain no rights either (in some containers), its helpers look the same, and lead their
    sessions; then a leader is only known by its environment.
    """
    me = os.getpid()
    session = procfs.session(pid)
    argv = procfs.cmdline(pid)
    return (
        procfs.has_no_new_privs(pid)
        and session != procfs.session(me)
        and (session != pid or not procfs.has_no_new_privs(me))
        and argv is not None
        and NAME not in argv
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
