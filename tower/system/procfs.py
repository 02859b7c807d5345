"""Processes as `/proc` shows them: who they are, whose children they are, and who is at a socket's other end.

A process is named for good by pid, start ticks and boot id; a bare pid is only a number that another program may
have by now. What is done about a process is left to the callers. The keeper imports this at each start, so it
loads nothing but `os` and the C part of `socket`.
"""

from __future__ import annotations

import _socket
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Final

PATIENCE: Final = 3
"""How often an ancestry is read again when a process on the way ended meanwhile."""


def boot_id() -> str:
    """Changes with each boot; a pid and its ticks of another boot say nothing."""
    return (_read("/proc/sys/kernel/random/boot_id") or b"").decode().strip()


def start_ticks(pid: int) -> int | None:
    """When the process was started, in clock ticks since boot; None when there is no such process."""
    stat = _stat(pid)
    return int(stat[19]) if stat else None


def is_same(pid: int, ticks: int, boot: str) -> bool:
    """Whether exactly this process is alive. One that has ended and only awaits its parent's `wait` is not."""
    stat = _stat(pid)
    return stat is not None and int(stat[19]) == ticks and stat[0] not in (b"Z", b"X") and boot == boot_id()


def is_zombie(pid: int) -> bool:
    """Whether the process has ended and awaits its parent's `wait`."""
    stat = _stat(pid)
    return stat is not None and stat[0] == b"Z"


def parent(pid: int) -> int | None:
    """Pid of the parent, 0 for the first process of the namespace; None when it cannot be read."""
    stat = _stat(pid)
    return int(stat[1]) if stat else None


def session(pid: int) -> int | None:
    """Session id; None when it cannot be read."""
    stat = _stat(pid)
    return int(stat[3]) if stat else None


def ancestors(pid: int) -> list[int] | None:
    """Parent, grandparent and so on up to the first process; None when that cannot be told.

    Where `/proc` is mounted with `hidepid`, processes of other users are hidden. The walk ends at one that is:
    below a keeper nothing can change its user, since keepers set `no_new_privs`.
    """
    for _ in range(PATIENCE):
        line: list[int] = []
        above = parent(pid)
        while above:
            line.append(above)
            at = above
            above = parent(at)
            if above is None and is_of_another_user(at):
                return line
        if above is not None:
            return line
    return None


def cmdline(pid: int) -> list[str] | None:
    """The argument vector; empty for a zombie or a kernel thread, None when it cannot be read."""
    data = _read(f"/proc/{pid}/cmdline")
    return None if data is None else [os.fsdecode(part) for part in data.split(b"\0")[:-1]]


def environ(pid: int) -> list[bytes]:
    """`NAME=VALUE` as the program was given them; empty when it cannot be read."""
    return [pair for pair in (_read(f"/proc/{pid}/environ") or b"").split(b"\0") if pair]


def has_no_new_privs(pid: int) -> bool:
    """Whether the process can never gain rights by an exec; inherited, and never lost again."""
    return b"\nNoNewPrivs:\t1\n" in (_read(f"/proc/{pid}/status") or b"")


def processes() -> Iterator[int]:
    """All pids that are shown to this user."""
    with os.scandir("/proc") as entries:
        for entry in entries:
            if entry.name.isdigit():
                yield int(entry.name)


def children(pid: int) -> list[int]:
    """Direct children, zombies included. Complete only while none of them ends: look again until nothing is new."""
    found: list[int] = []
    for task in _names(f"/proc/{pid}/task"):
        data = _read(f"/proc/{pid}/task/{task}/children")
        if data is None and not os.access("/proc/thread-self/children", os.F_OK):
            return [other for other in processes() if parent(other) == pid]  # a kernel without PROC_CHILDREN
        found += map(int, (data or b"").split())
    return found


def descendants(pid: int) -> list[int]:
    """Children, their children and so on, nearest first; complete under the same condition as `children`."""
    found = {pid: None}
    waiting = [pid]
    while waiting:
        below = [child for at in waiting for child in children(at) if child not in found]
        found.update(dict.fromkeys(below))
        waiting = below
    del found[pid]
    return list(found)


def peer_credentials(connection: _socket.socket) -> tuple[int, int, int]:
    """Pid, uid and gid at the other end of a Unix socket, as they were when it connected or listened."""
    data = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
    pid, uid, gid = (int.from_bytes(data[at : at + 4], sys.byteorder, signed=True) for at in (0, 4, 8))
    return pid, uid, gid


def _stat(pid: int) -> list[bytes] | None:
    """Fields of `stat` from the state on. The name before them may hold blanks and brackets."""
    data = _read(f"/proc/{pid}/stat")
    return data.rpartition(b")")[2].split() if data else None


def is_of_another_user(pid: int) -> bool:
    """Whether the process exists and belongs to somebody whom this user may not signal."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except OSError:
        return False
    return False


def _names(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries]
    except OSError:
        return []


def _read(path: str) -> bytes | None:
    """Whole content of a file that the kernel makes up; None when it is not there or not for us."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        data = b""
        while piece := os.read(fd, 65536):
            data += piece
        return data
    except OSError:
        return None
    finally:
        os.close(fd)
