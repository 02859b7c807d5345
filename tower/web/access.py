"""Who is asking: a person, or a run. A descendant of a run is never a person.

Agents run as the tower's own user, so a uid proves nothing. Every process of a run has its keeper above it, however
it was started (keepers are subreapers), and so a caller's ancestry tells; a run's token then lets it speak as that
run. What a caller may do is decided by `control`.
"""

from __future__ import annotations

import functools
import grp
import os
import pwd
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from tower.core.callers import Caller
from tower.core.errors import BusyError, RefusedError
from tower.core.records import Process, Run
from tower.web.peer import Peer, Remote, read_peer


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The rules of the control socket."""

    keeper_sockets: str
    """Folder of the keepers' sockets: a keeper with another one belongs to another tower."""
    agent_of_token: Callable[[str], Awaitable[Run | Process | None]]
    """A token -> the run alive that it was minted for; of a resident its turn, and between two its process."""
    socket_group: str | None = None
    own_uid: int = field(default_factory=os.geteuid)
    own_pid: int = field(default_factory=os.getpid)

    def look(self, connection: socket.socket) -> Peer | Remote:
        """Who made this connection. Raises `OSError` when it is closed by now."""
        if connection.family != socket.AF_UNIX:
            return Remote()
        return read_peer(connection, self.keeper_sockets, self.own_pid)

    async def caller(self, peer: Peer | Remote, token: str | None, *, agents_only: bool = False) -> Caller:
        """The caller behind a request; with `agents_only`, people are refused as well.

        Raises `RefusedError`; `BusyError` when it cannot be told just now.
        """
        if isinstance(peer, Peer):
            self._admit(peer)
        if token is None:
            if isinstance(peer, Remote) or agents_only:
                raise _no_token(is_door=agents_only)
            return _person(peer)
        found = await self.agent_of_token(token)
        if found is None:
            raise RefusedError(
                "bad-token",
                "cannot tell which run asks: its token is unknown, or its run is over",
                "a token holds from its run's start to its end; people need none",
            )
        run, process = (found.id, found.process) if isinstance(found, Run) else (None, found.id)
        if isinstance(peer, Peer) and peer.run not in (None, run, process):
            raise RefusedError(
                "foreign-token",
                f"cannot speak for run {run or process}: the caller belongs to run {peer.run}",
                "use the LAYOVER_RUN_TOKEN that this run was given",
            )
        return Caller(name=found.agent, run=run, process=None if run else process)

    def _admit(self, peer: Peer) -> None:
        if peer.uid in (self.own_uid, 0) or self._group() in peer.groups:
            return
        raise RefusedError(
            "not-yours",
            f"cannot use this tower: it belongs to {_name(self.own_uid)}, and {_name(peer.uid)} asks",
            "ask as that user or as root, or have [layover] socket_group name a group of yours",
        )

    def _group(self) -> int | None:
        try:
            return grp.getgrnam(self.socket_group).gr_gid if self.socket_group else None
        except KeyError:
            return None


def _no_token(*, is_door: bool) -> RefusedError:
    if is_door:
        hint = "this is for agents: send `Authorization: Bearer` and the LAYOVER_RUN_TOKEN of the run"
    else:
        hint = "people ask on the control socket, by `tower` or `curl --unix-socket`; a run shows its token"
    return RefusedError("no-token", "cannot tell who asks: the request shows no token", hint)


def _person(peer: Peer) -> Caller:
    if peer.may_be_a_person:
        return Caller(name=_name(peer.uid))
    if peer.starved:
        raise BusyError(
            "no-descriptors",
            "cannot look at who asks: the tower has no file descriptor left",
            "try again in a moment; raise LimitNOFILE= of the service if it lasts",
        )
    why = f"process {peer.pid} belongs to run {peer.run}" if peer.run else f"process {peer.pid}: {peer.doubt}"
    raise RefusedError(
        "not-a-person",
        f"cannot take this caller for a person: {why}",
        "a run shows its token (`tower send` does so); people ask from a shell that no run has started",
    )


@functools.lru_cache(maxsize=256)
def _name(uid: int) -> str:
    """Login name; a uid may have none, in a container for one."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid-{uid}"
