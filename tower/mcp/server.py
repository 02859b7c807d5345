"""The MCP server: the SDK's, stateless, with the tower's tools and nothing else.

Stateless, because agents live on while the tower is restarted, and clients lose sessions then. The SDK speaks both
generations of the protocol; what it announces follows from the handlers that are here. How a request of the older one
comes to it is `exchange`'s.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any, Final

import structlog
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
)
from starlette.types import ASGIApp

from tower import __version__
from tower.control import Control
from tower.core.callers import Caller
from tower.core.errors import TowerError
from tower.mcp.exchange import Exchange
from tower.mcp.tools import TOOLS, Tool, offered

NAME: Final = "layover"

INSTRUCTIONS: Final = (
    "These are the tools of the tower that started you. You act as the run that your token belongs to. A refusal is an"
    " answer: it says which rule refused, and what you can do instead."
)

BODY_BYTES: Final = 1 << 30
"""No bound of the SDK's own: requests have been bounded before they come here."""

log = structlog.get_logger("tower.mcp")


def serve(control: Control) -> tuple[ASGIApp, AbstractAsyncContextManager[None]]:
    """The application, and the life that it needs around it. It can be entered once."""
    server = _server(control)
    manager = StreamableHTTPSessionManager(server, json_response=True, stateless=True, max_request_body_size=BODY_BYTES)
    return Exchange(server, manager.handle_request), manager.run()


def _server(control: Control) -> Server[Any]:
    async def list_tools(context: Any, params: PaginatedRequestParams | None) -> ListToolsResult:
        if params is not None and params.cursor is not None:
            raise MCPError(INVALID_PARAMS, "Invalid cursor: all tools are in one page")
        caller = _caller(context)
        await control.own.heard(caller, tools_listed=True)
        shown = offered(is_orchestrator=control.own.is_orchestrator(caller))
        return ListToolsResult(tools=[tool.described for tool in shown])

    async def call_tool(context: Any, params: CallToolRequestParams) -> CallToolResult:
        tool = TOOLS.get(params.name)
        if tool is None:
            raise MCPError(INVALID_PARAMS, f"Unknown tool: {params.name[:80]}")
        caller = _caller(context)
        await control.own.heard(caller)
        return await _answer(control, caller, tool, params.arguments or {})

    server: Server[Any] = Server(
        NAME, version=__version__, instructions=INSTRUCTIONS, on_list_tools=list_tools, on_call_tool=call_tool
    )
    server.middleware.clear()  # spans that nobody exports
    return server


def _caller(context: Any) -> Caller:
    caller = context.request.state.caller
    assert isinstance(caller, Caller)  # noqa: S101 (set by the gate, without which no request comes here)
    return caller


async def _answer(control: Control, caller: Caller, tool: Tool, arguments: dict[str, Any]) -> CallToolResult:
    """What a call gives. The SDK would replace the words of an error that is raised, so refusals are returned."""
    try:
        return _text(await tool.call(control, caller, arguments))
    except TowerError as error:
        return _text(f"{error.sentence}\n{error.hint}".strip(), is_error=True)
    except Exception as error:
        log.exception("mcp.defect", tool=tool.name, run=caller.run, error=str(error))
        return _text("cannot do this: the tower met an error of its own\ngo on without it, or try again", is_error=True)


def _text(words: str, *, is_error: bool = False) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=words)], is_error=is_error)
