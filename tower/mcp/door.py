"""The door at `/mcp`: an ASGI application that is there from the start, and loads the SDK behind it when wanted.

The SDK takes a second of CPU to import and some 20 MB; a tower whose agents bring no MCP client never pays for it.
It is loaded when a program is started that will ask, so that its first request finds it there, or else by a request.
Who is asking has been settled before a request comes here: its caller is in the request's state.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from importlib import import_module
from typing import Final

import anyio
import anyio.to_thread
import structlog
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from tower.control import Control

INTERNAL_ERROR: Final = -32603
"""As JSON-RPC 2.0 numbers it."""

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
        if scope["method"] != "POST":
            # Without sessions there is nothing to listen to, and nothing to end.
            await Response(status_code=405, headers={"allow": "POST"})(scope, receive, send)
            return
        if self._inner is None:
            settled = self._settled
            self._asked.set()
            await settled.wait()
        if self._inner is None:
            await _cannot_load()(scope, receive, send)
            return
        await self._inner(scope, receive, send)


def _load(control: Control) -> tuple[ASGIApp, AbstractAsyncContextManager[None]]:
    made: tuple[ASGIApp, AbstractAsyncContextManager[None]] = import_module("tower.mcp.server").serve(control)
    return made


def _cannot_load() -> Response:
    error = {"code": INTERNAL_ERROR, "message": "The tower cannot load its tools; its log says why"}
    return JSONResponse({"jsonrpc": "2.0", "id": None, "error": error}, status_code=503)
