"""MCP over stdio: what is handed on, with which headers, and what becomes of answers and of none."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tower.client import forward, wire
from tower.client.api import Api
from tower.core.errors import UnreachableError


class Scripted(Api):
    """Answers as it is told, and remembers what it was asked."""

    def __init__(self, *replies: wire.Reply | UnreachableError) -> None:
        self.replies = list(replies)
        self.asked: list[dict[str, str]] = []

    def relay(self, path: str, body: bytes, headers: Mapping[str, str]) -> wire.Reply:
        assert path == "/mcp"
        json.loads(body)
        self.asked.append(dict(headers))
        reply = self.replies.pop(0)
        if isinstance(reply, UnreachableError):
            raise reply
        return reply


def reply(document: Any, status: int = 200) -> wire.Reply:
    return wire.Reply(status=status, headers={}, body=b"" if document is None else json.dumps(document).encode())


def talk(api: Api, *messages: Any) -> list[Any]:
    lines = [one if isinstance(one, bytes) else json.dumps(one).encode() + b"\n" for one in messages]
    return [json.loads(line) for line in forward.answers(api, lines)]


HELLO = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18"}}
AGREED = {"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": "2025-06-18"}}
LIST = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
TOOLS = {"jsonrpc": "2.0", "id": 2, "result": {"tools": []}}


def test_after_the_handshake_the_version_goes_with_every_request() -> None:
    api = Scripted(reply(AGREED), reply(None, 202), reply(TOOLS))
    said = talk(api, HELLO, {"jsonrpc": "2.0", "method": "notifications/initialized"}, b"\n", LIST)
    assert said == [AGREED, TOOLS]
    assert [asked.get("MCP-Protocol-Version") for asked in api.asked] == [None, "2025-06-18", "2025-06-18"]


def test_a_request_of_the_later_generation_says_itself_what_it_is() -> None:
    meta = {"_meta": {forward.VERSION_KEY: "2026-07-28"}}
    call = {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "layover_peers"} | meta}
    api = Scripted(reply({"jsonrpc": "2.0", "id": 3, "result": {}}))
    talk(api, call)
    (asked,) = api.asked
    assert asked["MCP-Protocol-Version"] == "2026-07-28"
    assert (asked["Mcp-Method"], asked["Mcp-Name"]) == ("tools/call", "layover_peers")


@pytest.mark.parametrize("name", ["a\r\nX-Evil: 1", "\u00e9"])
def test_no_header_can_be_smuggled_in(name: str) -> None:
    meta = {"_meta": {forward.VERSION_KEY: "2026-07-28"}}
    call = {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": name} | meta}
    api = Scripted(reply({"jsonrpc": "2.0", "id": 3, "result": {}}))
    talk(api, call)
    assert all(value.isascii() and value.isprintable() for value in api.asked[0].values())


def test_a_refusal_at_the_door_is_an_error_of_the_protocol() -> None:
    problem = {"detail": "cannot tell which run asks", "hint": "a token ends with its run", "status": 401}
    api = Scripted(reply(problem, 401), reply(problem, 401))
    (said,) = talk(api, LIST, {"jsonrpc": "2.0", "method": "notifications/initialized"})
    assert said["id"] == 2
    assert said["error"]["message"] == "cannot tell which run asks; a token ends with its run"


def test_a_tower_that_is_away_costs_one_call() -> None:
    api = Scripted(UnreachableError("unreachable", "cannot reach a tower", "start it"), reply(TOOLS))
    said = talk(api, LIST, LIST)
    assert said[0]["error"]["message"] == "cannot reach a tower; start it"
    assert said[1] == TOOLS


def test_what_is_no_json_is_said() -> None:
    (said,) = talk(Scripted(), b"{bad\n")
    assert (said["id"], said["error"]["code"]) == (None, -32700)
