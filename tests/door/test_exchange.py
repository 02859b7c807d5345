"""One request, one answer: what the tower's exchange says is what the SDK's own transport says, whatever is asked."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolRequestParams, CallToolResult, ListToolsResult, TextContent, Tool
from starlette.types import ASGIApp, Message

from tower.mcp.exchange import Exchange

pytestmark = pytest.mark.anyio

Pair = tuple[ASGIApp, ASGIApp]


def server() -> Server[Any]:
    """One with a tool that echoes, one that refuses, and one that fails."""

    async def tools(context: Any, params: Any) -> ListToolsResult:
        return ListToolsResult(tools=[Tool(name="echo", description="é", input_schema={"type": "object"})])

    async def call(context: Any, params: CallToolRequestParams) -> CallToolResult:
        assert context.request.headers["host"] == "here"
        if params.name == "fails":
            raise RuntimeError("never shown")
        if params.name != "echo":
            raise MCPError(-32602, "Unknown tool")
        await context.session.report_progress(0.5)
        return CallToolResult(content=[TextContent(type="text", text=str(params.arguments))])

    made: Server[Any] = Server("layover", version="1", on_list_tools=tools, on_call_tool=call)
    made.middleware.clear()
    return made


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    """The tower's and the SDK's own, over one server each."""
    ours, theirs = (StreamableHTTPSessionManager(server(), json_response=True, stateless=True) for _ in range(2))
    async with ours.run(), theirs.run():
        yield Exchange(server(), ours.handle_request), theirs.handle_request


async def ask(app: ASGIApp, body: bytes, **headers: str) -> tuple[int, Any]:
    """Status and document of one answer."""
    given = {"host": "here", "accept": "application/json, text/event-stream", "content-type": "application/json"}
    coming: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
    sent: list[Message] = []

    async def receive() -> Message:
        return coming.pop() if coming else {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    wire = [(name.replace("_", "-").encode(), value.encode()) for name, value in (given | headers).items()]
    await app({"type": "http", "method": "POST", "path": "/mcp", "headers": wire, "state": {}}, receive, send)
    text = b"".join(message.get("body", b"") for message in sent[1:])
    return sent[0]["status"], json.loads(text) if text else None


def request(method: str, params: Any = None, identity: Any = 1) -> dict[str, Any]:
    message = {"jsonrpc": "2.0", "id": identity, "method": method}
    return message if params is None else message | {"params": params}


HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
GOOD: list[Any] = [
    request("initialize", HELLO),
    request("initialize", HELLO | {"protocolVersion": "1999-01-01"}),
    request("initialize", {}),
    request("ping"),
    request("tools/list", identity="a"),
    request("tools/list", {"cursor": 7}),
    request("tools/call", {"name": "echo", "arguments": {"text": "é\u2028"}}),
    request("tools/call", {"name": "echo", "_meta": {"progressToken": 1}}),
    request("tools/call", {"name": "other"}),
    request("tools/call", {"arguments": []}),
    request("tools/call"),
    request("tools/fly"),
    request("resources/list"),
    request("x" * 10_000),
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}},
    {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {}},
    {"jsonrpc": "2.0", "id": 4, "result": {}},
    {"jsonrpc": "2.0", "id": 4, "error": {"code": 1, "message": "x"}},
]


@pytest.mark.parametrize("version", [None, "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28", "1999-01-01", "x"])
@pytest.mark.parametrize("message", GOOD, ids=range(len(GOOD)))
async def test_an_answer_is_that_of_the_sdk(pair: Pair, message: Any, version: str | None) -> None:
    headers = {} if version is None else {"mcp_protocol_version": version}
    ours, theirs = [await ask(app, json.dumps(message).encode(), **headers) for app in pair]
    assert ours == theirs


BAD = [
    b"",
    b"{",
    b"null",
    b"7",
    b'"x"',
    b"[]",
    b"[" * 100_000,
    b'{"a":' * 100_000,
    json.dumps([request("ping"), request("ping")]).encode(),
    b'{"jsonrpc":"2.0","id":1}',
    b'{"jsonrpc":"1.0","id":1,"method":"ping"}',
    b'{"id":1,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":1,"method":7}',
    b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}',
    b'{"jsonrpc":"2.0","id":1,"method":"ping","params":"\\ud800"}',
    b'{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}',
    b'{"jsonrpc":"2.0","id":1,"method":"\\ud800"}',
    b'{"jsonrpc":"2.0","id":' + b"9" * 5000 + b',"method":"ping"}',
    b"\xff\xfe",
    b'{"jsonrpc":"2.0","id":1,"method":"ping\x00"}',
]


@pytest.mark.parametrize("body", BAD, ids=range(len(BAD)))
async def test_what_is_no_message_is_refused_as_the_sdk_does(pair: Pair, body: bytes) -> None:
    (ours, said), (theirs, _) = [await ask(app, body) for app in pair]
    assert (ours, theirs) == (400, 400)
    assert said["id"] is None
    assert said["error"]["code"] in (-32700, -32600)


@pytest.mark.parametrize("identity", ["null", "true", "{}", "[1]", "NaN", "1e400", "1.5"])
async def test_who_waits_for_an_answer_gets_one(pair: Pair, identity: str) -> None:
    body = f'{{"jsonrpc":"2.0","id":{identity},"method":"ping"}}'.encode()
    status, said = await ask(pair[0], body)
    assert (status, said["id"], said["error"]["code"]) == (400, None, -32600)


@pytest.mark.parametrize(
    ("accept", "status"),
    [("application/json", 200), ("*/*", 200), ("application/*;q=0.1", 200), ("text/event-stream", 406), ("", 406)],
)
async def test_who_accepts_no_json_gets_none(pair: Pair, accept: str, status: int) -> None:
    ours, theirs = [await ask(app, json.dumps(request("ping")).encode(), accept=accept) for app in pair]
    assert (ours[0], theirs[0]) == (status, status)


async def test_an_identity_of_a_session_is_nothing_here(pair: Pair) -> None:
    for app in pair:
        assert await ask(app, json.dumps(request("ping")).encode(), mcp_session_id="of another") == (
            200,
            {"jsonrpc": "2.0", "id": 1, "result": {}},
        )


async def test_a_defect_is_told_without_its_words(pair: Pair) -> None:
    said = await ask(pair[0], json.dumps(request("tools/call", {"name": "fails"})).encode())
    assert said == (200, {"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": "Internal server error"}})
