"""The server: accepts connections on sockets that were bound elsewhere, and ends within bounds.

uvicorn's own server would let the event loop accept. That loop writes a log line for each try while descriptors are
short, and gives the waiting client no word; so the accepting is done here. The parsing and answering is uvicorn's.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Final

import anyio
import structlog
from fastapi import FastAPI
from uvicorn.server import ServerState

from tower.core.errors import BusyError
from tower.web import problems
from tower.web.access import Access
from tower.web.connection import Connection, make_config
from tower.web.peer import Peer
from tower.web.stream import closing_of

CONNECTIONS: Final = 512
"""At once. A person has a handful; each costs a descriptor and some 20 kB."""

RUN_CONNECTIONS: Final = 128
"""Of these so many may belong to runs, so that none of them can shut people out."""

GRACE_SEC: Final = 5.0
"""For answers that are under way when the server ends; what only waits is told at once."""

PAUSE_SEC: Final = 0.05
"""Between tries to accept while descriptors are short (as measured: serves again at once after)."""

SHORTAGES: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

log = structlog.get_logger("tower.web")

_STARVED: Final = problems.raw_answer(
    problems.describe(
        BusyError(
            "no-descriptors",
            "cannot serve: the tower has no file descriptor left",
            "try again in a moment; raise LimitNOFILE= of the service if it lasts",
        )
    )
)
_CROWDED: Final = problems.raw_answer(
    problems.describe(
        BusyError(
            "too-many-connections",
            "cannot serve: too many connections are open",
            "try again in a moment; close what is not used",
        )
    )
)


@asynccontextmanager
async def serve(
    app: FastAPI, sockets: Sequence[socket.socket], *, for_runs: Sequence[socket.socket] = ()
) -> AsyncIterator[None]:
    """Serve an application of `create_app` on listening sockets while the block runs; `for_runs` admit no person.

    At its end no new connection is accepted, what waits for news is answered, what is under way has `GRACE_SEC`, and
    the rest is cut off. The sockets stay open: they belong to who bound them.
    """
    server = _Server(app)
    async with anyio.create_task_group() as group:
        for listening in (*sockets, *for_runs):
            listening.setblocking(False)
            group.start_soon(server.accept, listening, listening in for_runs)
        try:
            yield
        finally:
            group.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                await server.end()


class _Server:
    def __init__(self, app: FastAPI) -> None:
        self._access: Access = app.state.access
        self._closing = closing_of(app)
        self._config = make_config(app)
        self._config.load()
        self._state = ServerState()
        self._lost = anyio.Event()

    async def accept(self, listening: socket.socket, is_for_runs: bool) -> None:
        """Accept for ever, whatever happens to single connections."""
        loop = asyncio.get_running_loop()
        spare = _Spare()
        try:
            while True:
                try:
                    connection, _ = await loop.sock_accept(listening)
                except OSError as error:
                    if error.errno in SHORTAGES:
                        spare.refuse_waiting(listening, error)
                        await anyio.sleep(PAUSE_SEC)
                    elif error.errno != errno.ECONNABORTED:
                        raise
                else:
                    spare.restore()
                    await self._greet(connection, is_for_runs)
        finally:
            spare.close()

    async def end(self) -> None:
        """Let answers finish for a while, then cut off the rest."""
        self._closing.set()
        for connection in tuple(self._state.connections):
            connection.shutdown()
        with anyio.move_on_after(GRACE_SEC):
            while self._state.connections:
                self._lost = anyio.Event()
                await self._lost.wait()
        tasks = tuple(self._state.tasks)
        for task in tasks:
            task.cancel()
        for connection in tuple(self._state.connections):
            connection.transport.abort()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _greet(self, connection: socket.socket, is_for_runs: bool) -> None:
        """Find out who it is, and serve it if there is room."""
        try:
            peer = self._access.look(connection)
            if is_for_runs and isinstance(peer, Peer) and peer.may_be_a_person:
                peer = replace(peer, doubt="it came through the socket for runs")
            if self._is_crowded(run=not peer.may_be_a_person):
                _turn_away(connection, _CROWDED)
                return
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: Connection(self._config, self._state, peer, self._lost_one), connection
            )
        except OSError:
            connection.close()

    def _is_crowded(self, *, run: bool) -> bool:
        connections = self._state.connections
        if len(connections) >= CONNECTIONS:
            return True
        return run and sum(not one.peer.may_be_a_person for one in _ours(connections)) >= RUN_CONNECTIONS

    def _lost_one(self) -> None:
        self._lost.set()


def _ours(connections: object) -> list[Connection]:
    assert isinstance(connections, set)  # noqa: S101 (uvicorn's set, typed for its own protocols)
    return [one for one in connections if isinstance(one, Connection)]


class _Spare:
    """A descriptor kept back, so that a client can be told when there is no other."""

    def __init__(self) -> None:
        self._descriptor = -1
        self._short = False
        self.restore()

    def restore(self) -> None:
        """Take one back, once there is one."""
        if self._descriptor < 0:
            with suppress(OSError):
                self._descriptor = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
        if self._short and self._descriptor >= 0:
            self._short = False
            log.info("socket.descriptors_back")

    def refuse_waiting(self, listening: socket.socket, error: OSError) -> None:
        """Tell the clients that wait; one log line for the whole shortage."""
        if not self._short:
            self._short = True
            log.error("socket.descriptors_short", error=str(error))
        if self._descriptor >= 0:
            self.close()
            with suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    _turn_away(connection, _STARVED)
        if self._descriptor < 0:
            with suppress(OSError):
                self._descriptor = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _turn_away(connection: socket.socket, answer: bytes) -> None:
    """Answer without listening: what the client has sent is dropped, so that the answer is not lost with it."""
    with connection, suppress(OSError):
        connection.setblocking(False)
        with suppress(BlockingIOError):
            connection.recv(1 << 16)
        connection.send(answer)
