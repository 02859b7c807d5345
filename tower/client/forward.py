"""MCP over standard input and output, for programs that cannot speak it over HTTP: each line is handed on to the tower.

Nothing is understood here but what HTTP wants to have in headers. The tower's door needs no sessions, so that a tower
that is restarted meanwhile is no more than one call that has to be made again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from tower.client import wire
from tower.client.api import Api
from tower.core.addresses import MCP_PATH
from tower.core.errors import UnreachableError

ACCEPT: Final = "application/json, text/event-stream"
VERSION_KEY: Final = "io.modelcontextprotocol/protocolVersion"
"""Where requests of the later generation say which version they are of."""

NAMES: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""Methods of which the later generation wants a parameter in a header."""

PARSE_ERROR: Final = -32700
INTERNAL_ERROR: Final = -32603
"""As JSON-RPC 2.0 numbers them."""


def answers(api: Api, lines: Iterable[bytes]) -> Iterator[bytes]:
    """What the tower answers to each line, one line each; what wants no answer gets none."""
    version: str | None = None
    for line in lines:
        if not line.strip():
            continue
        try:
            message: Any = json.loads(line)
        except (ValueError, RecursionError):
            yield _error(None, PARSE_ERROR, "Parse error: each line is one JSON message")
            continue
        found = message if isinstance(message, dict) else {}
        try:
            reply = api.relay(MCP_PATH, line.strip(), {"Accept": ACCEPT} | _headers(found, version))
        except UnreachableError as error:
            if "id" in found:
                yield _error(found["id"], INTERNAL_ERROR, f"{error.sentence}; {error.hint}")
            continue
        answer = _answer(found, reply)
        if answer is not None:
            version = _agreed(found, answer) or version
            yield answer


def _headers(message: Mapping[str, Any], version: str | None) -> dict[str, str]:
    params = message.get("params")
    params = params if isinstance(params, dict) else {}
    meta = params.get("_meta")
    own = meta.get(VERSION_KEY) if isinstance(meta, dict) else None
    if not isinstance(own, str):
        return {} if version is None or message.get("method") == "initialize" else {"MCP-Protocol-Version": version}
    method = str(message.get("method"))
    given = {"MCP-Protocol-Version": own, "Mcp-Method": method}
    if method in NAMES:
        given["Mcp-Name"] = str(params.get(NAMES[method]))
    return {name: value for name, value in given.items() if value.isascii() and value.isprintable()}


def _answer(message: Mapping[str, Any], reply: wire.Reply) -> bytes | None:
    """The message to hand back; a refusal of the tower's before MCP begins becomes an error of the protocol."""
    body = reply.body.strip()
    try:
        found: Any = json.loads(body) if body else None
    except ValueError:
        found = None
    if isinstance(found, dict) and "jsonrpc" in found:
        return json.dumps(found, separators=(",", ":")).encode()
    if "id" not in message:
        return None
    problem = found if isinstance(found, dict) else {}
    words = "; ".join(str(problem[key]) for key in ("detail", "hint") if problem.get(key))
    return _error(message["id"], INTERNAL_ERROR, words or f"the tower answered with status {reply.status}")


def _agreed(message: Mapping[str, Any], answer: bytes) -> str | None:
    """The version that both sides agreed upon, when this was that exchange."""
    if message.get("method") != "initialize":
        return None
    result = json.loads(answer).get("result")
    version = result.get("protocolVersion") if isinstance(result, dict) else None
    return version if isinstance(version, str) and version.isascii() and version.isprintable() else None


def _error(identity: Any, code: int, words: str) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": identity, "error": {"code": code, "message": words}}).encode()
