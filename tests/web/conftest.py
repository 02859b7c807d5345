"""The real application and the real server on a real socket, in a thread of its own; only the verbs are scripted."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import pytest
from fastapi import FastAPI
from starlette.types import ASGIApp

from tower.core.records import Process, Run
from tower.web.access import Access
from tower.web.app import create_app
from tower.web.gate import OverTcp
from tower.web.server import serve

from .fakes import PROCESS, RUN, Answer, FakeVerbs, ask

TOKEN = "token-of-run-1"
BETWEEN = "token-of-prc-1"
"""Of a resident's process that has no turn."""


@dataclass
class Served:
    """A tower's door that is open."""

    path: Path
    verbs: FakeVerbs
    app: FastAPI
    port: int
    """Of the same application over TCP."""
    close: Callable[[], None]
    call: Callable[..., object]
    """Run a function in the server's event loop."""

    def ask(self, method: str, target: str, document: object = None, headers: dict[str, str] | None = None) -> Answer:
        return ask(self.path, method, target, document, headers)


Open = Callable[..., Served]


@contextmanager
def opened(
    folder: Path,
    verbs: FakeVerbs,
    *,
    own_pid: int = 0,
    max_body_bytes: int = 1 << 20,
    over_tcp: OverTcp = OverTcp(serves_api=True),  # noqa: B008 (frozen)
    door: ASGIApp | None = None,
) -> Iterator[Served]:
    """Serve `verbs` on a socket in `folder`. With `own_pid` 0 the children of this process count as people."""
    keepers = folder / "k"
    keepers.mkdir(exist_ok=True)

    async def agent_of_token(token: str) -> Run | Process | None:
        return {TOKEN: RUN, BETWEEN: PROCESS}.get(token)

    access = Access(keeper_sockets=str(keepers), agent_of_token=agent_of_token, own_pid=own_pid)
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(folder / "tower.sock"))
    listening.listen(64)
    with ExitStack() as stack:
        stack.callback(listening.close)
        tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        portal = stack.enter_context(anyio.from_thread.start_blocking_portal("asyncio"))
        app = portal.call(
            lambda: create_app(
                verbs.control(), access, max_body_bytes=lambda: max_body_bytes, over_tcp=lambda: over_tcp, door=door
            )
        )
        served = portal.wrap_async_context_manager(serve(app, [listening, tcp]))
        served.__enter__()
        once = threading.Lock()

        def close() -> None:
            if once.acquire(blocking=False):
                served.__exit__(None, None, None)

        stack.callback(close)
        yield Served(
            path=folder / "tower.sock",
            verbs=verbs,
            app=app,
            port=tcp.getsockname()[1],
            close=close,
            call=portal.call,
        )


@pytest.fixture
def open_door(tmp_path: Path) -> Iterator[Open]:
    """Open a door with settings of the test's own."""
    with ExitStack() as stack:

        def start(verbs: FakeVerbs | None = None, **settings: Any) -> Served:
            return stack.enter_context(opened(tmp_path, verbs or FakeVerbs(), **settings))

        yield start


@pytest.fixture
def door(open_door: Open) -> Served:
    return open_door()
