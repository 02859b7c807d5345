"""The bytes of one exchange: long paths, lengths, chunks, and everything that a reply can be short of."""

from __future__ import annotations

import os
import socket
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tower.client import wire


def answer_to(request: bytes, reply: bytes) -> wire.Reply:
    """Exchange one request over a socket pair whose other end says `reply` and hangs up."""
    ours, theirs = socket.socketpair()

    def other_end() -> None:
        with theirs:
            theirs.recv(65536)
            theirs.sendall(reply)

    thread = threading.Thread(target=other_end)
    thread.start()
    with ours:
        ours.settimeout(5)
        try:
            return wire.exchange(ours, "POST", "/flights", {"X-A": "b", "Content-Length": str(len(request))}, request)
        finally:
            ours.close()
            thread.join(5)


@given(body=st.binary(max_size=400), chunks=st.lists(st.integers(1, 50), max_size=20))
def test_a_body_arrives_whole_by_length_by_chunks_and_by_the_end_of_the_connection(
    body: bytes, chunks: list[int]
) -> None:
    by_length = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    by_end = b"HTTP/1.0 200 OK\r\n\r\n" + body
    parts, rest = [], body
    for size in [*chunks, len(body)]:
        parts.append(rest[:size])
        rest = rest[size:]
    in_chunks = b"".join(b"%x;ext=1\r\n%s\r\n" % (len(part), part) for part in parts if part)
    by_chunks = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + in_chunks + b"0\r\nTrailer: x\r\n\r\n"
    for reply in (by_length, by_end, by_chunks):
        assert answer_to(b"x", reply).body == body


def test_header_names_are_lower_case_and_interim_replies_are_skipped() -> None:
    reply = answer_to(b"x", b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 202 Accepted\r\nX-Next-Offset:  7 \r\n\r\nok")
    assert (reply.status, reply.headers["x-next-offset"], reply.body) == (202, "7", b"ok")


def test_a_reply_without_content_has_none() -> None:
    assert answer_to(b"x", b"HTTP/1.1 204 No Content\r\n\r\n").body == b""


@pytest.mark.parametrize(
    "reply",
    [
        b"",
        b"HTTP/1.1 200 O",
        b"HTTP/1.1 200 OK\r\nContent-Le",
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhal",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
    ],
)
def test_half_a_reply_is_cut_and_never_taken_for_a_whole_one(reply: bytes) -> None:
    with pytest.raises(wire.CutError):
        answer_to(b"x", reply)


@pytest.mark.parametrize(
    "reply",
    [
        b"hello\r\n\r\n",
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 abc OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon here\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1e3\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        b"HTTP/1.1 200 " + b"O" * (wire.MAX_LINE_BYTES + 10) + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * (wire.MAX_HEADERS + 1) + b"\r\n",
    ],
)
def test_what_is_no_http_is_garbled(reply: bytes) -> None:
    with pytest.raises(wire.GarbledError):
        answer_to(b"x", reply)


def test_an_answer_to_a_body_that_was_not_read_is_still_heard(tmp_path: Path) -> None:
    """A server that refuses a large body at its head hangs up on the rest of it."""
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def refuse() -> None:
            link, _ = listener.accept()
            with link:
                link.recv(1000)
                link.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno")
                link.shutdown(socket.SHUT_RD)

        thread = threading.Thread(target=refuse)
        thread.start()
        with wire.dial(str(path), 5.0) as link:
            reply = wire.exchange(link, "POST", "/", {}, b"x" * (8 << 20))
        thread.join(5)
    assert (reply.status, reply.body) == (413, b"no")


@pytest.mark.parametrize("length", [20, wire.SUN_PATH_BYTES, wire.SUN_PATH_BYTES + 1, 250])
def test_a_path_of_any_length_is_reached(tmp_path: Path, length: int) -> None:
    folder = tmp_path
    while len(os.fsencode(folder)) < length - 60:
        folder = folder / ("d" * 40)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / ("s" * max(1, length - len(os.fsencode(folder)) - 1))
    held = os.open(folder, os.O_PATH)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"/proc/self/fd/{held}/{path.name}")
        listener.listen()
        with wire.dial(str(path), 5.0) as link:
            assert wire.peer_pid(link) == os.getpid()
    os.close(held)


def test_dialling_a_full_backlog_ends_within_its_time(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as listener, ExitStack() as waiting:
        listener.bind(path)
        listener.listen(0)
        waiting.enter_context(wire.dial(path, 5.0))
        with pytest.raises(BlockingIOError):
            wire.dial(path, 0.1)
