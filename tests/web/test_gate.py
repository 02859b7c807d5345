"""What every request passes: hostile, huge, slow and half bodies, and the order in which things are looked at."""

import json
import time
import tracemalloc

import pytest

from tower.web import gate

from .conftest import TOKEN, Open, Served
from .fakes import dial, read_all, read_reply

SEND = {"to": "coder", "body": "build"}
HEAD = b"POST /flights HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


def status_of(reply: bytes) -> int:
    return int(reply.split(b" ", 2)[1])


@pytest.mark.parametrize("kind", ["application/json", "application/json; charset=utf-8", "Application/JSON"])
def test_json_is_taken(door: Served, kind: str) -> None:
    assert door.ask("POST", "/flights", json.dumps(SEND).encode(), {"Content-Type": kind}).status == 202


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "json", ""])
def test_any_other_type_is_refused(door: Served, kind: str) -> None:
    answer = door.ask("POST", "/flights", json.dumps(SEND).encode(), {"Content-Type": kind})
    assert (answer.status, answer.code) == (415, "media-type")
    assert door.verbs.calls == []


@pytest.mark.parametrize("body", [b"\xff\xfe{}", b'{"to": "coder", "body": "caf\xe9"}', b'{"to": "\xed\xa0\x80"}'])
def test_what_is_not_utf8_is_refused_clearly(door: Served, body: bytes) -> None:
    began = time.monotonic()
    answer = door.ask("POST", "/flights", body)
    assert (answer.status, answer.code) == (400, "malformed")
    assert "it is not UTF-8, at byte" in answer.json["detail"]
    assert time.monotonic() - began < 0.8  # nothing is waited for
    assert door.verbs.calls == []


def test_a_body_of_the_greatest_size_passes_however_it_is_escaped(open_door: Open) -> None:
    door = open_door(max_body_bytes=100_000)
    body = "\x1b" * 100_000
    assert door.ask("POST", "/flights", SEND | {"body": body}).status == 202
    ((_, _, given),) = door.verbs.calls
    assert given["request"].body == body


def test_ten_megabytes_are_refused_and_a_client_that_only_writes_hears_it(door: Served) -> None:
    answer = door.ask("POST", "/flights", b'"' + b"x" * (10 << 20) + b'"')
    assert (answer.status, answer.code) == (413, "too-large")
    assert "max_body_bytes" in answer.json["hint"]
    assert door.ask("GET", "/health").status == 200


def test_a_body_without_end_is_refused_without_being_kept(door: Served) -> None:
    link = dial(door.path)
    link.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
    piece = b"100000\r\n" + b"x" * (1 << 20) + b"\r\n"
    tracemalloc.start()
    sent = 0
    try:
        while sent < 40:
            link.sendall(piece)
            sent += 1
    except (BrokenPipeError, ConnectionResetError):
        pass
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert status_of(read_all(link)) == 413
    assert sent < 40
    assert peak < 24 << 20
    link.close()


def test_the_announced_size_is_enough_to_refuse(door: Served) -> None:
    link = dial(door.path)
    link.sendall(HEAD + b"Content-Length: 99999999999\r\nExpect: 100-continue\r\n\r\n")
    reply = read_all(link)
    assert status_of(reply) == 413
    assert b"100 Continue" not in reply
    link.close()


def test_a_good_body_is_asked_for(door: Served) -> None:
    body = json.dumps(SEND).encode()
    link = dial(door.path)
    link.sendall(HEAD + f"Connection: close\r\nContent-Length: {len(body)}\r\nExpect: 100-continue\r\n\r\n".encode())
    assert link.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
    link.sendall(body)
    assert status_of(read_all(link)) == 202
    link.close()


def test_a_body_that_does_not_come_is_not_waited_for_for_ever(door: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "BODY_SEC", 0.1)
    monkeypatch.setattr(gate, "DISCARD_SEC", 0.1)
    link = dial(door.path)
    link.sendall(HEAD + b'Content-Length: 100\r\n\r\n{"to": ')
    reply = read_all(link)
    assert status_of(reply) == 408
    assert b'"slow-request"' in reply
    link.close()
    assert door.verbs.calls == []


def test_a_body_in_drops_is_a_body(door: Served) -> None:
    body = json.dumps(SEND).encode()
    link = dial(door.path)
    link.sendall(HEAD + f"Connection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode())
    for at in range(len(body)):
        link.sendall(body[at : at + 1])
    assert status_of(read_all(link)) == 202
    link.close()


def test_half_a_request_changes_nothing(door: Served, caplog: pytest.LogCaptureFixture) -> None:
    for piece in (HEAD[:20], HEAD, HEAD + b'Content-Length: 100\r\n\r\n{"to": "coder", "body": "x"}'):
        link = dial(door.path)
        link.sendall(piece)
        link.close()
    assert door.ask("POST", "/flights", SEND).status == 202
    assert [verb for verb, _, _ in door.verbs.calls] == ["send"]
    assert not caplog.records


def test_a_slow_client_holds_up_nobody(door: Served) -> None:
    slow = [dial(door.path) for _ in range(20)]
    for link in slow:
        link.sendall(HEAD + b"Content-Length: 100\r\n\r\n{")
    began = time.monotonic()
    assert door.ask("GET", "/status").status == 200
    assert time.monotonic() - began < 1
    for link in slow:
        link.close()


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({"Authorization": "Bearer wrong"}, 401, "bad-token"),
        ({"Authorization": "Bearer "}, 401, "bad-token"),
        ({"Authorization": "Basic YTpi"}, 401, "bad-token"),
        ({"Authorization": f"Bearer {TOKEN}", "Origin": "https://evil.example"}, 403, "foreign-origin"),
    ],
)
def test_who_may_not_ask_is_told_before_the_body_is_looked_at(
    door: Served, headers: dict[str, str], status: int, code: str
) -> None:
    for body, kind in ((b"\xff", "application/json"), (b"x" * (10 << 20), "text/plain")):
        answer = door.ask("POST", "/flights", body, headers | {"Content-Type": kind})
        assert (answer.status, answer.code) == (status, code)
        assert answer.headers["connection"] == "close"
    assert door.ask("GET", "/status", headers=headers).status == status
    assert door.verbs.calls == []


def test_a_refused_caller_cannot_make_the_tower_wait_for_its_body(door: Served) -> None:
    link = dial(door.path)
    link.sendall(HEAD + b"Authorization: Bearer wrong\r\nContent-Length: 1000000\r\n\r\n{")
    began = time.monotonic()
    assert status_of(read_all(link)) == 401
    assert time.monotonic() - began < gate.DISCARD_SEC + 1
    link.close()


def test_the_body_of_a_get_is_nobodys_business(door: Served) -> None:
    link = dial(door.path)
    link.sendall(
        b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 3\r\n\r\n\xff\xff\xff"
    )
    assert status_of(read_all(link)) == 200
    link.close()


def test_a_connection_is_used_again_after_a_post(door: Served) -> None:
    body = json.dumps(SEND).encode()
    link = dial(door.path)
    for number in range(3):
        link.sendall(HEAD + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
        assert status_of(read_reply(link)) == 202
        assert len(door.verbs.calls) == number + 1
    link.close()
