"""All processes of the run: reaped as they end, asked to end, and ended by force until none is left.

The keeper is the subreaper of its run. Whatever leaves its session or its parent comes back as a child, so the
tree below the keeper is the run, and `wait` answering that there are no children is the proof that it is over.
"""

from __future__ import annotations

import os
import resource

from tower.system import procfs

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from typing import Final

    from tower.system.keeper.group import Group
else:
    import _signal as signal  # what the enums of `signal` wrap: they cost 3 ms

FREEZES: Final = 50
"""Rounds of stopping what is new before the killing: what is stopped cannot fork any more."""


class Tree:
    """The descendants of this process. `program` is the pid of the agent program itself, or of its bubblewrap.

    bubblewrap dies of a polite signal and passes nothing on: it and its `inside`, the first process of the sandbox,
    which ends when the agent does, are never sent one.
    """

    __slots__ = ("_group", "inside", "is_empty", "program", "status")

    def __init__(self, program: int, inside: int | None = None, group: Group | None = None) -> None:
        self.program = program
        self.inside = inside
        self._group = group
        self.status: int | None = None
        """The program's wait status, once it has ended."""
        self.is_empty = False

    def reap(self) -> None:
        """Wait for all that have ended, and notice when nothing is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self.is_empty = True
                return
            if pid == 0:
                return
            if pid == self.program:
                self.status = status if self.inside is None else _status_inside(status)

    def ask_program(self, number: int) -> None:
        """The polite signal to the program alone. Its pid cannot be another's: it is only free once reaped here."""
        if self.status is None:
            for pid in [self.program] if self.inside is None else procfs.children(self.inside)[:1]:
                _signal(pid, number)
                _signal(pid, signal.SIGCONT)

    def ask_group(self, number: int) -> None:
        """The polite signal to the program's process group."""
        if self.status is None:
            group = [-self.program] if self.inside is None else self._group_inside()
            for pid in group:
                _signal(pid, number)
                _signal(pid, signal.SIGCONT)

    def _group_inside(self) -> list[int]:
        """Who is in the program's process group, but for those who hold the sandbox."""
        return [pid for pid in self.members() if pid not in (self.program, self.inside) and _is_in(pid, self.program)]

    def ask_all(self) -> None:
        """TERM to every descendant; stopped ones wake up to hear it."""
        for pid in self.members():
            _signal(pid, signal.SIGTERM)
            _signal(pid, signal.SIGCONT)

    def kill_all(self) -> None:
        """KILL to every descendant, frozen first, so that a fork bomb cannot run ahead of the killing."""
        if self._group is not None:
            self._group.kill()
        members: set[int] = set()
        for _ in range(FREEZES):
            new = set(self.members()) - members
            if not new:
                break
            for pid in new:
                _signal(pid, signal.SIGSTOP)
            members |= new
        for pid in members:
            _signal(pid, signal.SIGKILL)

    def members(self) -> list[int]:
        """Pids of all descendants that have not been reaped."""
        return procfs.descendants(os.getpid())


def _status_inside(status: int) -> int:
    """bubblewrap ends with 128 and more for a program that a signal ended: as a wait status that is the signal."""
    code = os.waitstatus_to_exitcode(status)
    return code - 128 if 128 < code < 128 + signal.NSIG else status


def usage() -> tuple[float, int]:
    """CPU seconds of all that was reaped, and the memory of the largest process in bytes.

    The kernel counts what a process held before its exec too, so the second is never below the keeper's own size.
    """
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime, used.ru_maxrss * 1024


def _is_in(pid: int, group: int) -> bool:
    try:
        return os.getpgid(pid) == group
    except ProcessLookupError:
        return False


def _signal(pid: int, number: int) -> None:
    try:  # noqa: SIM105
        os.kill(pid, number)
    except OSError:  # gone meanwhile, or not ours to signal: `Tree.is_empty` tells in the end
        pass
