"""One connection of the control socket: uvicorn's HTTP parser, with bounds on how long and how large a head may be.

Owns what happens before a request is one. Everything after belongs to `gate` and the resources.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from email.utils import formatdate
from typing import Any, Final

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from tower.core.errors import InvalidError
from tower.web import problems
from tower.web.peer import Peer, Remote

HEAD_SEC: Final = 10.0
"""From the connection, or the first byte of a further request, to the end of its headers."""

HEAD_BYTES: Final = 64 << 10
"""Request line and headers. The longest in use carries a body to preview in its query."""


class Connection(HttpToolsProtocol):
    """What uvicorn does with a connection, and nothing that waits or grows for ever."""

    def __init__(
        self, config: Config, server_state: ServerState, peer: Peer | Remote, on_lost: Callable[[], None]
    ) -> None:
        """`peer` is put into the state of each request; `on_lost` is called when the connection is over."""
        super().__init__(config, server_state, {"peer": peer})
        self.peer = peer
        self._on_lost = on_lost
        self._head_bytes = 0
        self._in_head = False
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_is_there()
        super().connection_lost(exc)
        self._on_lost()

    def data_received(self, data: bytes) -> None:
        if not self._is_answering():
            self._expect_head()
        super().data_received(data)
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES:
                self._refuse("head-too-large", f"cannot take more than {HEAD_BYTES} bytes of headers")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head = True
        self._head_bytes = 0
        date = (b"date", formatdate(usegmt=True).encode("ascii"))
        self.server_state.default_headers = [date, *self.config.encoded_headers]

    def on_headers_complete(self) -> None:
        self._head_is_there()
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        """What is no HTTP is answered like every other error."""
        self._refuse("malformed", "cannot read the request: it is no HTTP/1.1")

    def _is_answering(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle  # None before the first request, whatever uvicorn declares
        return cycle is not None and not cycle.response_complete

    def _expect_head(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(HEAD_SEC, self._head_is_late)

    def _head_is_there(self) -> None:
        self._in_head = False
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _head_is_late(self) -> None:
        if self._in_head:
            self._refuse("slow-request", f"cannot wait any longer for the headers: {HEAD_SEC:.0f} s have passed")
        else:
            self.transport.close()

    def _refuse(self, code: str, sentence: str) -> None:
        if not self.transport.is_closing():
            hint = "see `tower status --help` for a client, or use curl --unix-socket"
            self.transport.write(problems.raw_answer(problems.describe(InvalidError(code, sentence, hint))))
            self.transport.close()


def make_config(app: Any) -> Config:
    """uvicorn's settings for an application that is served by `Connection` alone."""
    return Config(
        app,
        http=Connection,
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        forwarded_allow_ips="",
        headers=[("cache-control", "no-store"), ("x-content-type-options", "nosniff")],
        timeout_keep_alive=30,
        workers=1,
    )
