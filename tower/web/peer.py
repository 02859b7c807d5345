"""Who is at the other end of a connection, by the kernel's word.

Read once, when the connection is made: a process may end while it is open, and its number may be another's later.
What follows from it is decided by `access`.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import struct
from dataclasses import dataclass
from typing import Final

from tower.system import procfs
from tower.system.keeper.ancestry import AncestryError, run_above

SO_PEERGROUPS: Final = 59
SO_PEERPIDFD: Final = 77
"""Linux 6.5. Both from asm-generic/socket.h; the socket module names neither."""

GROUPS_BYTES: Final = 1024
"""The longest answer that `getsockopt` takes: 256 groups. Of a peer with more only its first group counts."""

GONE: Final = -1

FIRST: Final = 1
"""The first process. Where it may gain no rights either (some containers), that tells nothing of anybody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """The process that connected."""

    pid: int
    uid: int
    groups: frozenset[int] = frozenset()
    run: str | None = None
    """The run that it belongs to: that run's keeper is above it."""
    doubt: str | None = None
    """Why it cannot be taken for a person although no keeper is above it, in words."""
    starved: bool = False
    """It could not be looked at, since this process has no descriptor left."""

    @property
    def may_be_a_person(self) -> bool:
        return self.run is None and self.doubt is None


@dataclass(frozen=True, slots=True)
class Remote:
    """The other end of a TCP connection: whoever it is, only a token says so."""

    may_be_a_person = False


def read_peer(connection: socket.socket, keeper_sockets: str, own_pid: int) -> Peer:
    """Read who connected to this tower, whose keepers have their sockets in the folder `keeper_sockets`.

    Raises `OSError` for a connection that was closed.
    """
    pid, uid, gid = procfs.peer_credentials(connection)
    handle = _pidfd(connection)
    try:
        run, doubt = _origin(pid, keeper_sockets, own_pid)
        # With the peer gone, the number in our hands may have been another process' while we looked it up.
        if handle == GONE or (handle is not None and _has_ended(handle)):
            run, doubt = None, "it has ended"
    finally:
        if handle is not None and handle != GONE:
            os.close(handle)
    return Peer(
        pid=pid,
        uid=uid,
        groups=frozenset({gid, *_groups(connection)}),
        run=run,
        doubt=doubt,
        starved=doubt is not None and _out_of_descriptors(),
    )


def _origin(pid: int, keeper_sockets: str, own_pid: int) -> tuple[str | None, str | None]:
    """The run above a process, and the doubt about it."""
    try:
        run = run_above(pid, keeper_sockets)
    except (AncestryError, OSError):
        return None, "its ancestry cannot be read: it has ended, or is of another container"
    if run is None and own_pid in (procfs.ancestors(pid) or ()):
        # The tower inherits what a killed keeper leaves behind.
        return None, "the tower itself has started or inherited it"
    if run is None and procfs.has_no_new_privs(pid) and not procfs.has_no_new_privs(FIRST):
        # Every run is marked so, for good and with all that it forks: this outlives keeper, tower and environment.
        return None, "it may gain no rights (no_new_privs), as what a run has started may not"
    return run, None


def _groups(connection: socket.socket) -> tuple[int, ...]:
    try:
        data = connection.getsockopt(socket.SOL_SOCKET, SO_PEERGROUPS, GROUPS_BYTES)
    except OSError:
        return ()
    return struct.unpack(f"={len(data) // 4}I", data)


def _pidfd(connection: socket.socket) -> int | None:
    """A handle of the very process that connected, or `GONE`; None where the kernel has none to give."""
    try:
        handle = connection.getsockopt(socket.SOL_SOCKET, SO_PEERPIDFD)
    except OSError as error:
        # Before Linux 6.16 there is no handle of a process that has ended.
        return GONE if error.errno in (errno.ESRCH, errno.EINVAL) else None
    os.set_inheritable(handle, False)
    return handle


def _has_ended(handle: int) -> bool:
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    return bool(poll.poll(0))


def _out_of_descriptors() -> bool:
    try:
        os.close(os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC))
    except OSError:
        return True
    return False
