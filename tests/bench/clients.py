"""Many clients at a time in one thread with prepared bytes, so that what is measured is the tower and not its load."""

from __future__ import annotations

import json
import selectors
import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import Final

PATIENCE: Final = 30.0
"""Seconds of silence after which no answer is coming."""


def dial(path: str, seconds: float = PATIENCE) -> socket.socket:
    """A connection to a tower; no read or write takes longer than this."""
    link = socket.socket(socket.AF_UNIX)
    link.settimeout(seconds)
    link.connect(path)
    return link


def flight(to: str, body: str) -> bytes:
    """The request that sends a flight."""
    document = json.dumps({"to": to, "body": body}).encode()
    head = f"POST /flights HTTP/1.1\r\nHost: tower\r\nContent-Type: application/json\r\nContent-Length: {len(document)}"
    return head.encode() + b"\r\n\r\n" + document


def post_all(path: str, requests: Iterable[bytes], *, clients: int) -> float:
    """Send each request, with `clients` connections that each wait for their answer. Returns seconds for all."""
    waiting = iter(requests)
    with selectors.DefaultSelector() as selector, ExitStack() as stack:
        links = [stack.enter_context(dial(path)) for _ in range(clients)]
        for link in links:
            selector.register(link, selectors.EVENT_READ, bytearray())
        began = time.perf_counter()
        under_way = sum(_send_next(link, waiting) for link in links)
        while under_way:
            ready = selector.select(PATIENCE)
            if not ready:
                raise TimeoutError(f"{under_way} requests were not answered")
            for key, _ in ready:
                key.data.extend(key.fileobj.recv(65536))
                if _is_whole(key.data):
                    key.data.clear()
                    under_way -= not _send_next(key.fileobj, waiting)
        return time.perf_counter() - began


def _send_next(link: socket.socket, waiting: Iterator[bytes]) -> bool:
    request = next(waiting, None)
    if request is not None:
        link.sendall(request)
    return request is not None


def _is_whole(data: bytearray) -> bool:
    head, end, body = data.partition(b"\r\n\r\n")
    if not end:
        return False
    if not head.startswith(b"HTTP/1.1 202"):
        raise RuntimeError(data.decode(errors="replace"))
    return len(body) == int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
