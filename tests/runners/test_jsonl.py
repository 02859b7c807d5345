"""The protocol of programs that stay: lines cut wherever pages end, read whatever they hold, and results checked."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tower.runners import jsonl
from tower.runners.jsonl import LINE_BYTES, Lines, Noise, Result, Session, failure, read, reading, request


def result(**fields: Any) -> Result:
    found = read(json.dumps({"type": "result", "turn": 1, **fields}).encode(), 10)
    assert isinstance(found, Result)
    return found


@given(st.lists(st.binary(max_size=20).map(lambda data: data.replace(b"\n", b" "))), st.lists(st.integers(1, 9)))
def test_lines_are_the_same_wherever_the_pages_end(texts: list[bytes], sizes: list[int]) -> None:
    data = b"".join(text + b"\n" for text in texts) + b"unfinished"
    lines, at, got = Lines(100), 0, []
    for size in [*sizes, len(data)]:
        got += list(lines.feed(data[at : at + size], 100 + at))
        at = min(len(data), at + size)
    assert [line for line, _ in got] == texts
    ends = [end - 100 for _, end in got]
    assert all(data[end - 1 : end] == b"\n" for end in ends)
    assert lines.at == 100 + len(data)


def test_a_gap_and_an_endless_line_cost_one_line_each() -> None:
    lines = Lines(0)
    assert list(lines.feed(b"whole\nbegun", 0)) == [(b"whole", 6)]
    assert list(lines.feed(b"rest\nnext\n", 50)) == [(None, 55), (b"next", 60)]
    assert list(lines.feed(b"x" * LINE_BYTES, 60)) == []
    assert list(lines.feed(b"x" * LINE_BYTES, 60 + LINE_BYTES)) == []
    after = 60 + 2 * LINE_BYTES
    assert list(lines.feed(b"x\nfine\n", after)) == [(None, after + 2), (b"fine", after + 7)]


@given(st.binary(max_size=200))
def test_no_line_raises_anything(line: bytes) -> None:
    assert read(line, 0) is None or isinstance(read(line, 0), Noise)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)
KEYS = ("turn", "ok", "answer", "error", "unavailable", "session", "model", "tokens_in", "cost_usd")


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(KEYS, JSON)))
def test_no_result_raises_anything(fields: dict[str, Any]) -> None:
    found = read(json.dumps({"type": "result"} | fields).encode(), 5)
    assert isinstance(found, Result | Noise)
    if isinstance(found, Result):
        known = reading(found)
        assert known.answer is None or known.answer.encode()
        assert failure(found).encode()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"hello", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b"[1]", "no object"),
        (b'{"turn": 1}', "no object with a type"),
        (b'{"type": "result"}', "named no turn"),
        (b'{"type": "result", "turn": true}', "named no turn"),
        (b'{"type": "result", "turn": 1, "ok": 1}', "neither true nor false"),
        (b'{"type": "session", "id": "-rf"}', "no id"),
        (b'{"type": "session", "id": "a\\nb"}', "no id"),
        (None, "longer than"),
    ],
)
def test_what_is_no_line_of_the_protocol_is_said(line: bytes | None, words: str) -> None:
    found = read(line, 0)
    assert isinstance(found, Noise)
    assert words in found.words


def test_events_are_read() -> None:
    assert read(b"  ", 0) is None
    assert read(b'{"type": "progress", "percent": 3}', 0) is None
    assert read(b'{"type": "session", "id": "talk-17"}', 0) == Session("talk-17")
    found = result(answer="yes", session="s", cost_usd=0.5, tokens_in=3, tokens_out=4, model="m")
    assert (found.turn, found.ok, found.end, found.session) == (1, True, 10, "s")
    known = reading(found)
    assert (known.answer, known.cost, known.model) == ("yes", 500_000, "m")
    assert (known.tokens_in, known.tokens_cached, known.tokens_out) == (3, None, 4)


def test_numbers_that_cannot_be_are_said_as_the_result_s() -> None:
    assert reading(result(tokens_in=-1)).problems == ("its result's tokens_in is no count between 0 and 1000000000000",)


def test_why_a_turn_failed() -> None:
    assert failure(result(ok=False, error="no\nway")) == "no way"
    assert failure(result(ok=False, answer="so so")) == "so so"
    assert "not why" in failure(result(ok=False))
    assert reading(result(ok=False, unavailable="quota")).unavailable == "quota"
    assert reading(result(ok=True, unavailable="quota")).unavailable is None


@given(st.text())
def test_a_request_is_one_line(payload: str) -> None:
    line = request(turn=1, run="run_1", itinerary="itn_1", number=7, payload=payload, new=True, session="s")
    assert line.count(b"\n") == 1
    assert json.loads(line)["payload"] == payload
    assert "session" not in json.loads(
        request(turn=2, run="run_1", itinerary="itn_1", number=8, payload="", new=False, session="s")
    )


def test_the_name_of_the_protocol_is_known() -> None:
    assert jsonl.NAME in jsonl.PROTOCOLS
