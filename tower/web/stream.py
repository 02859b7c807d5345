"""Answers that take their time: server-sent events, and requests that wait for news.

Both end when the client goes away and when the server closes.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar

import anyio
from anyio.streams.memory import MemoryObjectSendStream
from fastapi import FastAPI, Request, Response
from starlette.types import Receive, Scope, Send

from tower.core.errors import BusyError

QUIET_SEC: Final = 15.0
"""After so long without an event a comment is sent: it shows both ends, and any proxy, that the other lives."""

Event = Mapping[str, Any]
T = TypeVar("T")


def closing_of(app: FastAPI) -> anyio.Event:
    """The event that is set when the server of an application closes."""
    closing = app.state.closing
    assert isinstance(closing, anyio.Event)  # noqa: S101 (set by create_app)
    return closing


async def while_wanted(request: Request, work: Callable[[], Awaitable[T]]) -> T:
    """Do `work` while somebody waits for it. Raises `BusyError` when the server closes or the client goes away."""
    done: list[T] = []
    async with anyio.create_task_group() as group:

        async def end_with_client() -> None:
            while (await request.receive())["type"] != "http.disconnect":
                pass
            group.cancel_scope.cancel()

        async def end_with_server() -> None:
            await closing_of(request.app).wait()
            group.cancel_scope.cancel()

        group.start_soon(end_with_client)
        group.start_soon(end_with_server)
        done.append(await work())
        group.cancel_scope.cancel()
    if not done:
        raise BusyError("stopping", "cannot wait any longer: the tower is stopping", "ask again when it is back")
    return done[0]


class EventStream(Response):
    """Server-sent events. Each is a mapping with `seq` and `type`; its whole is the data."""

    media_type = "text/event-stream"

    def __init__(self, events: AsyncIterator[Event], closing: anyio.Event) -> None:
        super().__init__(headers={"cache-control": "no-store"})
        del self.headers["content-length"]
        self._events = events
        self._closing = closing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        sink, source = anyio.create_memory_object_stream[Event](0)
        async with anyio.create_task_group() as group:

            async def end_with_client() -> None:
                while (await receive())["type"] != "http.disconnect":
                    pass
                group.cancel_scope.cancel()

            async def end_with_server() -> None:
                await self._closing.wait()
                group.cancel_scope.cancel()

            group.start_soon(end_with_client)
            group.start_soon(end_with_server)
            group.start_soon(self._pump, sink)
            async with source:
                while True:
                    data = b": still here\n\n"
                    with anyio.move_on_after(QUIET_SEC):
                        try:
                            data = _encode(await source.receive())
                        except anyio.EndOfStream:
                            break
                    await send({"type": "http.response.body", "body": data, "more_body": True})
            group.cancel_scope.cancel()
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _pump(self, sink: MemoryObjectSendStream[Event]) -> None:
        """In a task of its own: an iterator that is cancelled while it waits is spent."""
        async with sink:
            async for event in self._events:
                await sink.send(event)


def _encode(event: Event) -> bytes:
    data = json.dumps(event, separators=(",", ":"))  # ASCII: no line break can hide in it
    return f"id: {event['seq']}\nevent: {event['type']}\ndata: {data}\n\n".encode()
