"""Being the first process of a container: reaping whatever nobody waits for, and passing signals on.

The kernel gives every orphan of a pid namespace to its first process. The image has a program for that; here is what is
done when it was left out, by an entry point of one's own.
"""

from __future__ import annotations

import os
import signal
from typing import Final

from tower.core.errors import TowerError

SIGNAL_BASE: Final = 128
"""A process ended by signal N is reported as 128 + N, as shells and container engines do."""

OWN_FAULT: Final = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGTRAP, signal.SIGSYS}
"""Raised by what a process does itself: to block them is undefined, and to pass them on is wrong."""

NOBODYS: Final = {signal.SIGKILL, signal.SIGSTOP}
"""Cannot be waited for."""


def delegate_first_process() -> None:
    """Return at once unless this is process 1; else go on as its only child, which is told every signal that it gets.

    Process 1 itself stays behind, reaps, and ends with the exit code of the child. To be called before there are
    threads. The child leads a session: what a terminal sends reaches it once, through process 1.
    """
    if os.getpid() != 1:
        return
    waited_for = signal.valid_signals() - OWN_FAULT - NOBODYS
    before = signal.pthread_sigmask(signal.SIG_BLOCK, waited_for)
    try:
        child = os.fork()
    except OSError as error:
        raise TowerError("start", f"cannot start below process 1: {error.strerror}") from error
    if child:
        os._exit(_outlive(child, waited_for))
    os.setsid()
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _outlive(child: int, waited_for: set[signal.Signals]) -> int:
    """Reap and pass on until the child has ended; its exit code."""
    while True:
        while (ended := _reap()) is not None:
            pid, status = ended
            if pid == child:
                code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else SIGNAL_BASE - code
        number = signal.sigwait(waited_for)
        if number != signal.SIGCHLD:
            os.kill(child, number)


def _reap() -> tuple[int, int] | None:
    """One process that has ended, with its wait status; None when there is none just now."""
    pid, status = os.waitpid(-1, os.WNOHANG)
    return (pid, status) if pid else None
