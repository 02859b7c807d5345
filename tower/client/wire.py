"""One HTTP/1.1 exchange over a Unix socket, in the standard library's cheap parts.

`http.client` would do, but it imports the email package and doubles the start of `tower status`. Owns dialling and
the bytes of a request and a reply; which socket to dial is `discover`'s, what a reply means is `api`'s.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Mapping
from contextlib import suppress
from typing import BinaryIO, Final, NamedTuple

SUN_PATH_BYTES: Final = 107
"""Longest path that fits into `sockaddr_un` on Linux (108 bytes with the closing NUL)."""

MAX_LINE_BYTES: Final = 64 << 10
MAX_HEADERS: Final = 100
MAX_BODY_BYTES: Final = 256 << 20
"""A tower's largest document is a page of a list; anything near this is no tower."""


class CutError(Exception):
    """The reply ended before it was whole."""


class GarbledError(Exception):
    """What came back is no HTTP reply."""


class Reply(NamedTuple):
    """One reply, whole. Header names are in lower case. (A dataclass would take a millisecond of each verb's start.)"""

    status: int
    headers: Mapping[str, str]
    body: bytes


def dial(path: str, seconds: float) -> socket.socket:
    """Connect to the Unix socket at `path`, however long the path is.

    `seconds` bounds the connecting (a tower whose backlog is full) and afterwards each single read and write.
    Raises `OSError`: FileNotFoundError and ConnectionRefusedError when nothing listens there, PermissionError when
    it is not for us, BlockingIOError when the backlog stayed full.
    """
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # Blocking, with the kernel's own limit: a connect that would block fails at once on a socket with a timeout.
        whole = int(seconds)
        link.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("@ll", whole, int((seconds - whole) * 1e6)))
        _connect(link, path)
        link.settimeout(seconds)
    except BaseException:
        link.close()
        raise
    return link


def _connect(link: socket.socket, path: str) -> None:
    if len(os.fsencode(path)) <= SUN_PATH_BYTES:
        link.connect(path)
        return
    head, _, name = path.rpartition("/")
    folder = os.open(head or "/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        link.connect(f"/proc/self/fd/{folder}/{name}")
    finally:
        os.close(folder)


def peer_pid(link: socket.socket) -> int | None:
    """The process that listens at the other end; None where the kernel does not tell (another pid namespace)."""
    pid, _, _ = struct.unpack("=iII", link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return pid if pid > 0 else None


def exchange(link: socket.socket, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Reply:
    """Send one request and read its reply. The connection is spent afterwards.

    Raises `CutError`, `GarbledError`, `TimeoutError` (silence), and `OSError` for a connection that broke.
    """
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    request = f"{method} {target} HTTP/1.1\r\nHost: tower\r\nConnection: close\r\n{head}\r\n".encode("ascii") + body
    # A server that refuses a large body answers and hangs up before it has read it; that answer is worth more.
    with suppress(BrokenPipeError, ConnectionResetError):
        link.sendall(request)
    with link.makefile("rb") as stream:
        try:
            return _read_reply(stream)
        except ConnectionResetError as broken:
            raise CutError("the connection was reset") from broken


def _read_reply(stream: BinaryIO) -> Reply:
    status = 100
    headers: dict[str, str] = {}
    while status < 200:  # 1xx are interim
        status = _read_status(stream)
        headers = _read_headers(stream)
    return Reply(status=status, headers=headers, body=_read_body(stream, status, headers))


def _read_status(stream: BinaryIO) -> int:
    line = _line(stream)
    parts = line.split(None, 2)
    if len(parts) < 2 or not parts[0].startswith(b"HTTP/1.") or not (parts[1].isdigit() and len(parts[1]) == 3):
        raise GarbledError(f"the first line is {line[:60]!r}")
    return int(parts[1])


def _read_headers(stream: BinaryIO) -> dict[str, str]:
    headers: dict[str, str] = {}
    for _ in range(MAX_HEADERS):
        line = _line(stream)
        if not line:
            return headers
        name, colon, value = line.decode("latin-1").partition(":")
        if not colon:
            raise GarbledError(f"a header line is {line[:60]!r}")
        headers[name.strip().lower()] = value.strip()
    raise GarbledError(f"more than {MAX_HEADERS} header lines")


def _line(stream: BinaryIO) -> bytes:
    line = stream.readline(MAX_LINE_BYTES)
    if not line.endswith(b"\n"):
        if len(line) >= MAX_LINE_BYTES:
            raise GarbledError(f"a header line is longer than {MAX_LINE_BYTES} bytes")
        raise CutError("the connection ended in the headers" if line else "the connection ended without a reply")
    return line.rstrip(b"\r\n")


def _read_body(stream: BinaryIO, status: int, headers: Mapping[str, str]) -> bytes:
    if status in (204, 304):
        return b""
    if "chunked" in headers.get("transfer-encoding", "").lower():
        return _read_chunks(stream)
    if "content-length" in headers:
        return _exactly(stream, _size(headers["content-length"], 10))
    body = stream.read(MAX_BODY_BYTES + 1)
    if len(body) > MAX_BODY_BYTES:
        raise GarbledError(f"the reply is longer than {MAX_BODY_BYTES} bytes")
    return body


def _read_chunks(stream: BinaryIO) -> bytes:
    chunks: list[bytes] = []
    total = 0
    while size := _size(_line(stream).partition(b";")[0].decode("latin-1"), 16):
        total += size
        if total > MAX_BODY_BYTES:
            raise GarbledError(f"the reply is longer than {MAX_BODY_BYTES} bytes")
        chunks.append(_exactly(stream, size))
        _line(stream)
    while _line(stream):  # trailers
        pass
    return b"".join(chunks)


def _size(text: str, base: int) -> int:
    digits = text.strip()
    if not (digits.isalnum() and digits.isascii()):
        raise GarbledError(f"a length is {text[:20]!r}")
    try:
        size = int(digits, base)
    except ValueError:
        raise GarbledError(f"a length is {text[:20]!r}") from None
    if size > MAX_BODY_BYTES:
        raise GarbledError(f"the reply announces {size} bytes")
    return size


def _exactly(stream: BinaryIO, size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise CutError(f"the connection ended after {len(data)} of {size} bytes")
    return data
