"""Server-sent events and requests that wait: news, silence, clients that go away, a server that closes."""

import json
import threading
import time

import anyio
import pytest

from tower.core.records import Event
from tower.web import stream

from .conftest import Open, Served
from .fakes import FakeVerbs, ask, dial, eventually, read_all

HAPPENED = [
    Event(type="flight.queued", at=1.0, seq=1, flight="flt_1", data={"by": "ada"}),
    Event(type="run.started", at=2.0, seq=2, run="run_1", agent="coder"),
    Event(type="run.said", at=3.0, seq=3, data={"text": "line one\nid: 99\n\ndata: forged \u2028 \ud800"}),
]


def open_stream(door: Served, target: str = "/events", *headers: str) -> "Reader":
    link = dial(door.path)
    link.sendall("\r\n".join([f"GET {target} HTTP/1.1", "Host: localhost", *headers, "", ""]).encode())
    return Reader(link)


class Reader:
    """Reads chunks of an event stream."""

    def __init__(self, link: object) -> None:
        self.link = link
        self.file = link.makefile("rb")  # type: ignore[attr-defined]
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += self.file.readline()
        assert head.startswith(b"HTTP/1.1 200 ")
        assert b"content-type: text/event-stream" in head

    def chunk(self) -> bytes:
        size = int(self.file.readline(), 16)
        data: bytes = self.file.read(size)
        assert self.file.readline() == b"\r\n"
        return data

    def close(self) -> None:
        self.file.close()
        self.link.close()  # type: ignore[attr-defined]


def test_events_are_told_in_order_and_nothing_can_be_forged(open_door: Open) -> None:
    reader = open_stream(open_door(FakeVerbs(happened=HAPPENED)))
    told = []
    for _ in HAPPENED:
        identity, kind, data, *rest = reader.chunk().decode().split("\n")
        assert rest == ["", ""]
        told.append((identity, kind, json.loads(data.removeprefix("data: "))["data"]))
    assert told == [
        ("id: 1", "event: flight.queued", {"by": "ada"}),
        ("id: 2", "event: run.started", {}),
        ("id: 3", "event: run.said", HAPPENED[2].data),
    ]
    reader.close()


@pytest.mark.parametrize(
    ("target", "headers", "after"),
    [
        ("/events", [], 0),
        ("/events?after=2", [], 2),
        ("/events?after=1", ["Last-Event-ID: 2"], 2),
        ("/events?after=2", ["Last-Event-ID: nonsense"], 2),
        ("/events", ["Last-Event-ID: 99999999999999999999999"], (1 << 63) - 1),
    ],
)
def test_a_stream_goes_on_where_it_broke(open_door: Open, target: str, headers: list[str], after: int) -> None:
    door = open_door(FakeVerbs(happened=HAPPENED))
    reader = open_stream(door, target, *headers)
    if after == 2:
        assert reader.chunk().startswith(b"id: 3\n")
    eventually(lambda: bool(door.verbs.calls))
    ((_, _, given),) = door.verbs.calls
    assert given == {"after": after}
    reader.close()


def test_silence_is_filled(open_door: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "QUIET_SEC", 0.05)
    reader = open_stream(open_door(FakeVerbs(happened=HAPPENED[:1])))
    assert reader.chunk().startswith(b"id: 1\n")
    assert reader.chunk() == reader.chunk() == b": still here\n\n"
    reader.close()


def alive(door: Served) -> int:
    """Requests under way."""
    import gc

    from uvicorn.server import ServerState

    return sum(len(one.tasks) for one in gc.get_objects() if isinstance(one, ServerState))


def test_a_client_that_goes_away_costs_nothing_more(open_door: Open) -> None:
    door = open_door(FakeVerbs(news=anyio.Event()))
    readers = [open_stream(door) for _ in range(5)]
    waiting = dial(door.path)
    waiting.sendall(b"GET /itineraries/itn_1?wait=60 HTTP/1.1\r\nHost: localhost\r\n\r\n")
    eventually(lambda: alive(door) == 6)
    for reader in readers:
        reader.close()
    waiting.close()
    eventually(lambda: alive(door) == 0)


def test_news_ends_a_wait(open_door: Open) -> None:
    entered = threading.Event()
    news = anyio.Event()
    door = open_door(FakeVerbs(news=news, entered=entered.set))
    answers = []
    waiter = threading.Thread(
        target=lambda: answers.append(ask(door.path, "GET", "/itineraries/itn_1?wait=30&after=7"))
    )
    waiter.start()
    assert entered.wait(5)
    door.call(news.set)
    waiter.join(5)
    (answer,) = answers
    assert answer.status == 200
    assert answer.json["seq"] == 7


def test_closing_ends_every_wait_with_an_answer(open_door: Open) -> None:
    entered = threading.Semaphore(0)
    door = open_door(FakeVerbs(news=anyio.Event(), entered=entered.release))
    reader = open_stream(door)
    answers = []
    waiter = threading.Thread(target=lambda: answers.append(ask(door.path, "GET", "/itineraries/itn_1?wait=30")))
    waiter.start()
    assert entered.acquire(timeout=5)
    assert entered.acquire(timeout=5)
    began = time.monotonic()
    door.close()
    assert time.monotonic() - began < 2
    waiter.join(5)
    (answer,) = answers
    assert (answer.status, answer.code) == (503, "stopping")
    assert read_all(reader.link) == b"0\r\n\r\n"  # type: ignore[arg-type]
    reader.close()
