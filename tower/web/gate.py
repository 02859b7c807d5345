"""What every request passes before anything is done: who asks, from where, and a body within bounds.

Owns the order. A caller who may not ask is refused before its body is read, and a body is read whole only when it
is short enough, arrives in time and is text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

import anyio
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tower.core.addresses import MCP_PATH
from tower.core.errors import InvalidError, RefusedError, TowerError
from tower.web import problems
from tower.web.access import Access
from tower.web.origin import check_origin, check_public
from tower.web.peer import Peer, Remote

JSON_GROWTH: Final = 6
"""JSON may write one byte of text as six (`\\u001b`)."""

JSON_REST_BYTES: Final = 64 << 10
"""Room for the other fields of a request."""

BODY_SEC: Final = 30.0
"""A body of the greatest size takes milliseconds over a local socket; past this the client is stuck."""

DISCARD_BYTES: Final = 16 << 20
DISCARD_SEC: Final = 1.0
"""Of a request that is refused so much is read and dropped, so that a client that writes before it reads is told."""


HEALTH_PATH: Final = "/health"


@dataclass(frozen=True, slots=True, kw_only=True)
class OverTcp:
    """What holds for requests over TCP."""

    hosts: frozenset[str] = frozenset()
    """Names and addresses that may be asked for, beside those of this machine's loopback."""
    serves_api: bool = False
    """False: the door for agents alone."""


class _GoneError(Exception):
    """The client went away before its request was whole."""


class _Incoming:
    """A request's `receive` that knows whether more of its body is to come."""

    def __init__(self, receive: Receive, headers: Headers) -> None:
        self._receive = receive
        self.more = "content-length" in headers or "transfer-encoding" in headers

    async def __call__(self) -> Message:
        message = await self._receive()
        self.more = message.get("more_body", False)
        return message


class Gate:
    """ASGI middleware around the whole application."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        access: Access,
        max_body_bytes: Callable[[], int],
        over_tcp: Callable[[], OverTcp],
    ) -> None:
        """`max_body_bytes` is the greatest body of a flight, in bytes of UTF-8."""
        self._app = app
        self._access = access
        self._max_body_bytes = max_body_bytes
        self._over_tcp = over_tcp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        incoming = _Incoming(receive, headers)
        try:
            await self._find_caller(scope, headers)
            if scope["method"] == "POST":
                receive = await self._read_body(headers, incoming)
        except _GoneError:
            return
        except TowerError as error:
            await _discard(headers, incoming)
            problem = problems.describe(error)
            asks = {"www-authenticate": "Bearer"} if problem.status == HTTPStatus.UNAUTHORIZED else {}
            response = problems.answer(problem, asks | {"connection": "close"})
            await response(scope, receive, send)
            return
        await self._app(scope, receive, send)

    async def _find_caller(self, scope: Scope, headers: Headers) -> None:
        """Put the caller into the request's state. Raises `RefusedError` and `BusyError`."""
        peer, path = scope["state"].get("peer"), scope["path"]
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        if isinstance(peer, Peer):
            check_origin(hosts, origins)
        elif isinstance(peer, Remote):
            rules = self._over_tcp()
            check_public(hosts, origins, rules.hosts)
            if path == HEALTH_PATH and scope["method"] == "GET":
                return  # whoever asks; it tells nothing but that the tower lives
            if path != MCP_PATH and not rules.serves_api:
                raise RefusedError(
                    "not-over-tcp",
                    "cannot serve the API over TCP: it is switched off",
                    'ask on the control socket, or give an address in [layover] http_addr (it is "")',
                )
        else:
            raise RefusedError("no-socket", "cannot tell who asks: this is no socket of the tower's")
        scope["state"]["caller"] = await self._access.caller(peer, _bearer(headers), agents_only=path == MCP_PATH)

    async def _read_body(self, headers: Headers, incoming: _Incoming) -> Receive:
        """Read the body and return a `receive` that hands it on whole."""
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise InvalidError(
                "media-type",
                f"cannot take a body of type {kind[:80]!r}" if kind else "cannot take a body without a type",
                "send `Content-Type: application/json`, with an empty body too",
            )
        limit = self._max_body_bytes() * JSON_GROWTH + JSON_REST_BYTES
        announced = headers.get("content-length", "")
        if announced.isdecimal() and int(announced) > limit:
            raise _too_large(f"{announced} bytes", limit)
        body = bytearray()
        with anyio.move_on_after(BODY_SEC) as patience:
            while incoming.more:
                message = await incoming()
                if message["type"] == "http.disconnect":
                    raise _GoneError
                body += message.get("body", b"")
                if len(body) > limit:
                    raise _too_large("that much", limit)
        if patience.cancelled_caught:
            raise InvalidError(
                "slow-request",
                f"cannot wait any longer for the rest of the body: {len(body)} bytes came in {BODY_SEC:.0f} s",
                "send the whole body at once",
            )
        _check_text(body)
        return _replay(bytes(body), incoming)


def _bearer(headers: Headers) -> str | None:
    given = headers.get("authorization")
    if given is None:
        return None
    scheme, _, token = given.partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise RefusedError(
            "bad-token",
            "cannot read the Authorization header",
            "a run sends `Authorization: Bearer` and its token; people send none",
        )
    return token.strip()


def _check_text(body: bytearray) -> None:
    try:
        body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidError(
            "malformed", f"cannot read the body: it is not UTF-8, at byte {error.start}", "send UTF-8 text"
        ) from None


def _too_large(size: str, limit: int) -> InvalidError:
    return InvalidError(
        "too-large",
        f"cannot take a body of {size}: a request may have {limit} bytes",
        "put the material into a file that the agent can read and send its path, or raise layover.max_body_bytes",
    )


def _replay(body: bytes, receive: Receive) -> Receive:
    """First the body that was read, then whatever comes: the end of the connection, in fact."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return waiting.pop() if waiting else await receive()

    return replay


async def _discard(headers: Headers, incoming: _Incoming) -> None:
    if headers.get("expect"):
        return  # the client waits for our word before it sends
    size = 0
    with anyio.move_on_after(DISCARD_SEC):
        while incoming.more and size < DISCARD_BYTES:
            size += len((await incoming()).get("body", b""))
