"""The official client, as an agent has it: through the door of a real tower, with a run's token."""

from __future__ import annotations

import functools
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import anyio
import httpx2
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client

from .daemon_process import PATIENCE, Daemon, eventually

HOLDING = "cmd:echo $LAYOVER_MCP_URL $LAYOVER_RUN_TOKEN > $LAYOVER_RUN_ID.pass; while [ ! -e end ]; do sleep 0.05; done"
"""An agent that leaves its pass in the tree and stays until the file `end` is there."""


@dataclass(frozen=True)
class Pass:
    """What lets a run in."""

    url: str
    token: str


def pass_of(daemon: Daemon, flight: str) -> Pass:
    """The pass of a run of `HOLDING`, once it has left it."""

    def look() -> Pass | None:
        runs = daemon.flight(flight)["runs"]
        path = daemon.tree / f"{runs[-1]['id']}.pass" if runs else Path("/nowhere")
        words = path.read_text().split() if path.exists() else []
        return Pass(*words) if len(words) == 2 else None

    return eventually(look)


@asynccontextmanager
async def connected(held: Pass, mode: Literal["auto", "legacy"] = "auto", **headers: str) -> AsyncIterator[Client]:
    """A client that has shaken hands."""
    headers = {"Authorization": f"Bearer {held.token}"} | headers
    async with (
        httpx2.AsyncClient(headers=headers, trust_env=False, timeout=PATIENCE) as http,
        Client(streamable_http_client(held.url, http_client=http), mode=mode) as client,
    ):
        yield client


async def call(client: Client, tool: str, **arguments: Any) -> tuple[bool, str]:
    """Whether a call was refused, and the words of its answer."""
    answer = await client.call_tool(tool, arguments)
    return answer.is_error, "\n".join(part.text for part in answer.content if part.type == "text")


def post(held: Pass, message: Any, **headers: str) -> httpx2.Response:
    """One bare request, as JSON unless it is bytes."""
    return httpx2.post(
        held.url,
        content=message if isinstance(message, bytes) else json.dumps(message).encode(),
        headers={
            "Authorization": f"Bearer {held.token}",
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
        }
        | headers,
        trust_env=False,
        timeout=PATIENCE,
    )


def in_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run an asynchronous test in an event loop of its own."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        anyio.run(functools.partial(test, *args, **kwargs))

    return run
