"""One request over HTTP, one answer: the generations of the protocol that shake hands, without a session for each.

The SDK's own transport for these opens streams and five tasks for every request, which is most of what fifty agents
cost that come at once. Here is what is left of it where nothing is streamed and nothing is remembered: the message is
read by the SDK's models and served by the SDK's kernel (`serve_one`), as it does itself for the generation without a
handshake, whose requests go on to its transport untouched.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import anyio
import structlog
from mcp.server.connection import Connection
from mcp.server.lowlevel import Server
from mcp.server.runner import serve_one
from mcp.server.streamable_http import check_accept_headers
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import NoBackChannelError
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp.shared.jsonrpc_dispatcher import handler_exception_to_error_data
from mcp.shared.message import MessageMetadata, ServerMessageMetadata
from mcp.shared.transport_context import TransportContext
from mcp_types import (
    DEFAULT_NEGOTIATED_VERSION,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCNotification,
    JSONRPCRequest,
    RequestId,
    jsonrpc_message_adapter,
)
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pydantic import ValidationError
from pydantic_core import from_json
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

log = structlog.get_logger("tower.mcp")

OVER_HTTP: Final = TransportContext(kind="streamable-http", can_send_request=False)


@dataclass(slots=True)
class _OneAnswer:
    """The SDK's view of a request whose only way back is its answer: a `DispatchContext`."""

    request_id: RequestId
    message_metadata: MessageMetadata
    transport: TransportContext = OVER_HTTP
    can_send_request: bool = False
    cancel_requested: anyio.Event = field(default_factory=anyio.Event)

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        raise NoBackChannelError(method)

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None) -> None:
        """There is no stream that it could go out by."""

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Likewise."""


class Exchange:
    """The application. What belongs to a generation without a handshake, or to none that is known, is `beyond`'s."""

    def __init__(self, server: Server[Any], beyond: ASGIApp) -> None:
        self._server = server
        self._beyond = beyond

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        version = request.headers.get(MCP_PROTOCOL_VERSION_HEADER)
        if version is None or version in HANDSHAKE_PROTOCOL_VERSIONS:
            answer = await self._answer(request, version or DEFAULT_NEGOTIATED_VERSION)
            await answer(scope, receive, send)
        else:
            await self._beyond(scope, receive, send)

    async def _answer(self, request: Request, version: str) -> Response:
        accepts_json, _ = check_accept_headers(request)
        if not accepts_json:
            return _refusal(406, INVALID_REQUEST, "Not acceptable: accept application/json")
        try:
            raw = from_json(await request.body())
        except (ValueError, RecursionError):
            return _refusal(400, PARSE_ERROR, "Parse error")
        try:
            message = jsonrpc_message_adapter.validate_python(raw, by_name=False)
        except ValidationError:
            return _refusal(400, INVALID_REQUEST, "Invalid request: the body must be one JSON-RPC message")
        if isinstance(message, JSONRPCNotification) and "id" in raw:
            # The models take it for one, but whoever sent it waits for an answer.
            return _refusal(400, INVALID_REQUEST, "Invalid request: id must be a text or an integer, and not null")
        if not isinstance(message, JSONRPCRequest):
            # Without a session there is nothing that a notification or a response could change.
            return Response(status_code=202)
        return _answered(message.id, await self._served(request, message, version))

    async def _served(self, request: Request, message: JSONRPCRequest, version: str) -> dict[str, Any]:
        """The member of the answer that says what came of it."""
        context = _OneAnswer(message.id, ServerMessageMetadata(request_context=request))
        connection = Connection.from_envelope(version, None, None)
        try:
            found = await serve_one(
                self._server, context, message.method, message.params, connection=connection, lifespan_state={}
            )
        except Exception as error:
            data = handler_exception_to_error_data(error)
            if data is None:
                log.exception("mcp.defect", method=message.method[:80], error=str(error))
                data = ErrorData(code=INTERNAL_ERROR, message="Internal server error")
            return {"error": data.model_dump(mode="json", by_alias=True, exclude_none=True)}
        return {"result": found}


def _answered(identity: RequestId | None, member: Mapping[str, Any], status: int = 200) -> Response:
    text = json.dumps({"jsonrpc": "2.0", "id": identity, **member}, separators=(",", ":"))
    return Response(text, status_code=status, media_type="application/json")


def _refusal(status: int, code: int, words: str) -> Response:
    return _answered(None, {"error": {"code": code, "message": words}}, status)
