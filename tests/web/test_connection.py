"""What comes before a request is one: slow heads, endless heads, and what is no HTTP at all."""

import time
from contextlib import suppress

import pytest

from tower.web import connection

from .conftest import Served
from .fakes import dial, read_all, read_reply

GET = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"


@pytest.fixture(autouse=True)
def _brisk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "HEAD_SEC", 0.15)


def test_a_connection_that_says_nothing_is_closed(door: Served) -> None:
    link = dial(door.path)
    assert read_all(link) == b""
    link.close()


@pytest.mark.parametrize("start", [b"G", b"GET /hea", GET, GET + b"X-Slow: "])
def test_a_head_that_does_not_end_is_refused(door: Served, start: bytes) -> None:
    link = dial(door.path)
    link.sendall(start)
    reply = read_all(link)
    assert reply.startswith(b"HTTP/1.1 408 ")
    assert b'"slow-request"' in reply
    link.close()


def test_a_head_in_drops_has_the_same_time(door: Served) -> None:
    link = dial(door.path)
    began = time.monotonic()
    reply = b""
    try:
        for byte in GET + b"X-Slow: " + b"x" * 10_000:
            link.sendall(bytes([byte]))
            time.sleep(0.01)
    except (BrokenPipeError, ConnectionResetError):
        reply = read_all(link)
    assert time.monotonic() - began < 2
    assert reply.startswith(b"HTTP/1.1 408 ")
    link.close()


def test_a_second_request_has_its_own_time(door: Served) -> None:
    link = dial(door.path)
    link.sendall(GET + b"\r\n")
    assert read_reply(link).startswith(b"HTTP/1.1 200 ")
    time.sleep(0.2)  # idle between requests is no offence
    link.sendall(GET + b"\r\n")
    assert read_reply(link).startswith(b"HTTP/1.1 200 ")
    link.sendall(GET)
    assert read_all(link).startswith(b"HTTP/1.1 408 ")
    link.close()


def test_line_ends_between_requests_keep_nothing_open(door: Served) -> None:
    link = dial(door.path)
    link.sendall(GET + b"\r\n")
    assert read_reply(link).startswith(b"HTTP/1.1 200 ")
    link.sendall(b"\r\n")
    assert read_all(link) == b""
    link.close()


@pytest.mark.parametrize(
    "endless", [b"X-Long: " + b"x" * (1 << 20), b"".join(b"X-%d: y\r\n" % n for n in range(50_000))]
)
def test_a_head_without_bounds_is_refused(door: Served, endless: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "HEAD_SEC", 10)
    link = dial(door.path)
    with suppress(BrokenPipeError, ConnectionResetError):
        link.sendall(GET + endless)
    reply = read_all(link)
    assert reply.startswith(b"HTTP/1.1 431 ")
    assert b'"head-too-large"' in reply
    link.close()


def test_a_long_query_fits(door: Served) -> None:
    answer = door.ask("GET", "/agents/coder/prompt?body=" + "x" * 60_000)
    assert answer.status == 200
    assert len(answer.body) > 60_000


@pytest.mark.parametrize("noise", [b"\x16\x03\x01\x02\x00\x01\x00\x01", b"hello\r\n\r\n", b"\x00" * 100])
def test_what_is_no_http_gets_a_problem_document(door: Served, noise: bytes) -> None:
    link = dial(door.path)
    link.sendall(noise)
    head, _, body = read_all(link).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert b"application/problem+json" in head
    assert f"content-length: {len(body)}".encode() in head
    assert b'"malformed"' in body
    link.close()


def test_requests_in_one_breath_are_answered_in_order(door: Served) -> None:
    link = dial(door.path)
    link.sendall(GET + b"\r\n" + b"GET /find/x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    replies = read_all(link)
    assert replies.count(b"HTTP/1.1 200 ") == 2
    assert replies.index(b'"version"') < replies.index(b'"kind"')
    link.close()


def test_an_upgrade_is_not_followed(door: Served) -> None:
    link = dial(door.path)
    link.sendall(GET + b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n\r\n")
    assert read_reply(link).startswith(b"HTTP/1.1 200 ")
    link.close()
