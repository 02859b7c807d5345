"""A small real HTTP server on a Unix socket that says what a test tells it to, byte for byte."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import parse_qsl, urlsplit


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        return json.loads(self.body)


Route = bytes | Callable[[Request], bytes | None]
"""The reply, or what makes it; None keeps silent until the server ends."""


def raw(status: int, body: bytes, kind: str, **headers: str) -> bytes:
    more = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    head = f"HTTP/1.1 {status} Whatever\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n{more}\r\n"
    return head.encode() + body


def reply(document: Any, status: int = 200) -> bytes:
    return raw(status, json.dumps(document).encode(), "application/json")


def problem(status: int, code: str, detail: str, hint: str = "") -> bytes:
    document = {"type": "about:blank", "title": "t", "status": status, "code": code, "detail": detail, "hint": hint}
    return raw(status, json.dumps(document).encode(), "application/problem+json")


def silence(_: Request) -> None:
    return None


class FakeTower:
    """Serves `routes` ("GET /status" -> Route) at `path`, each connection in a thread; keeps what it was asked."""

    def __init__(self, path: Path, routes: Mapping[str, Route] | None = None) -> None:
        self.path = path
        self.routes: dict[str, Route] = dict(routes or {})
        self.requests: list[Request] = []
        self._ended = threading.Event()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def __enter__(self) -> FakeTower:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._ended.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(5)

    def asked(self, method: str, path: str) -> list[Request]:
        return [request for request in self.requests if (request.method, request.path) == (method, path)]

    def _accept(self) -> None:
        while True:
            try:
                link, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(link,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, link: socket.socket) -> None:
        with link:
            request = self._read(link)
            if request is None:
                return
            self.requests.append(request)
            missing = problem(404, "not-found", f"cannot find {request.path}")
            route = self.routes.get(f"{request.method} {request.path}", missing)
            answer = route if isinstance(route, bytes) else route(request)
            if answer is None:
                self._ended.wait(20)
                return
            try:
                link.sendall(answer)
            except OSError:
                return

    def _read(self, link: socket.socket) -> Request | None:
        with link.makefile("rb") as stream:
            first = stream.readline().decode().split()
            if len(first) != 3:
                return None
            headers = {}
            while line := stream.readline().decode().strip():
                name, _, value = line.partition(":")
                headers[name.lower()] = value.strip()
            body = stream.read(int(headers.get("content-length", "0")))
        url = urlsplit(first[1])
        return Request(first[0], url.path, dict(parse_qsl(url.query)), headers, body)
