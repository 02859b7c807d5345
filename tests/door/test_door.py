"""When the door loads what is behind it, and what is answered while there is nothing."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import anyio
import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Message

from tower.control import Control
from tower.mcp.door import Door

pytestmark = pytest.mark.anyio


class Tools:
    """What is loaded: it fails as often as it is told to."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.loaded = anyio.Event()
        self.is_alive = False

    def __call__(self, control: Control) -> Any:
        if self.failures:
            self.failures -= 1
            raise ImportError("replaced under it")
        return PlainTextResponse("tools"), self.life()

    @asynccontextmanager
    async def life(self) -> AsyncIterator[None]:
        self.is_alive = True
        self.loaded.set()
        try:
            yield
        finally:
            self.is_alive = False


async def ask(door: Door, method: str = "POST") -> tuple[int, bytes]:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"{}", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    await door({"type": "http", "method": method, "path": "/mcp", "headers": []}, receive, send)
    return sent[0]["status"], sent[1]["body"]


@asynccontextmanager
async def opened(tools: Tools) -> AsyncIterator[tuple[Door, anyio.Event]]:
    wanted = anyio.Event()
    door = Door(cast(Control, None), wanted, tools)
    async with anyio.create_task_group() as group:
        group.start_soon(door.keep)
        await anyio.wait_all_tasks_blocked()
        yield door, wanted
        group.cancel_scope.cancel()
    assert not tools.is_alive


async def test_nothing_is_loaded_before_somebody_wants_it() -> None:
    tools = Tools()
    async with opened(tools) as (door, wanted):
        assert [(await ask(door, method))[0] for method in ("GET", "DELETE", "PUT", "OPTIONS")] == [405] * 4
        assert not tools.loaded.is_set()
        wanted.set()
        await tools.loaded.wait()
        assert await ask(door) == (200, b"tools")


async def test_the_first_request_waits_for_them() -> None:
    tools = Tools()
    async with opened(tools) as (door, _):
        assert await ask(door) == (200, b"tools")


async def test_what_cannot_be_loaded_is_tried_again_at_the_next_request() -> None:
    tools = Tools(failures=2)
    async with opened(tools) as (door, _):
        for _ in range(2):
            status, body = await ask(door)
            assert (status, json.loads(body)["error"]["code"]) == (503, -32603)
        assert await ask(door) == (200, b"tools")
