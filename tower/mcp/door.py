"""The door at `/mcp`: an ASGI application that is there from the start, and loads the SDK behind it when wanted.

The SDK takes a second of CPU to import and some 20 MB; a tower whose agents bring no MCP client never pays for it.
It is loaded when a program is started that will ask, so that its first request finds it there, or else by a request.
Who is asking has been settled before a request comes here: its caller is in the request's state.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from importlib import import_module
from typing import Any, Final

import anyio
import anyio.to_thread
import structlog
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from tower.control import Control

INVALID_REQUEST: Final = -32600
INTERNAL_ERROR: Final = -32603
"""As JSON-RPC 2.0 numbers them."""

log = structlog.get_logger("tower.mcp")

Load = Callable[[Control], tuple[ASGIApp, AbstractAsyncContextManager[None]]]


class Door:
    """The application. `keep` must run as long as requests come."""

    def __init__(self, control: Control, wanted: anyio.Event, load: Load | None = None) -> None:
        """`wanted` is set when the first request is to be expected."""
        self._control = control
        self._load = load or _load
        self._asked = wanted
        self._settled = anyio.Event()
        self._inner: ASGIApp | None = None

    async def keep(self) -> None:
        """Load the SDK when it is wanted, beside the event loop, and serve by it until cancelled."""
        while True:
            await self._asked.wait()
            try:
                inner, life = await anyio.to_thread.run_sync(self._load, self._control)
            except Exception as error:
                # The package may have been replaced under a tower that runs; what it does besides goes on.
                log.exception("mcp.cannot-load", error=str(error))
                settled, self._asked, self._settled = self._settled, anyio.Event(), anyio.Event()
                settled.set()
                continue
            async with life:
                self._inner = inner
                self._settled.set()
                log.info("mcp.ready")
                await anyio.sleep_forever()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        if request.method != "POST":
            # Without sessions there is nothing to listen to, and nothing to end.
            await Response(status_code=405, headers={"allow": "POST"})(scope, receive, send)
            return
        body = await request.body()
        if _has_null_id(body):
            await _error(INVALID_REQUEST, "Invalid request: id must not be null", 400)(scope, receive, send)
            return
        if self._inner is None:
            settled = self._settled
            self._asked.set()
            await settled.wait()
        if self._inner is None:
            await _error(INTERNAL_ERROR, "The tower cannot load its tools; its log says why", 503)(scope, receive, send)
            return
        await self._inner(scope, _replay(body, receive), send)


def _load(control: Control) -> tuple[ASGIApp, AbstractAsyncContextManager[None]]:
    made: tuple[ASGIApp, AbstractAsyncContextManager[None]] = import_module("tower.mcp.server").serve(control)
    return made


def _has_null_id(body: bytes) -> bool:
    """Whether this is a request with `id: null`, which the SDK would take for a notification."""
    if b'"id"' not in body or b"null" not in body:
        return False
    try:
        message: Any = json.loads(body)
    except (ValueError, RecursionError):
        return False
    return isinstance(message, dict) and "id" in message and message["id"] is None and "method" in message


def _error(code: int, words: str, status: int) -> Response:
    error = {"code": code, "message": words}
    return JSONResponse({"jsonrpc": "2.0", "id": None, "error": error}, status_code=status)


def _replay(body: bytes, receive: Receive) -> Receive:
    waiting = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Any:
        return waiting.pop() if waiting else await receive()

    return replay
