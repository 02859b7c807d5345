"""Following a chain and a log, through a restart of the tower too."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from tower.client import follow
from tower.client.api import Api
from tower.core.errors import NotFoundError, UnreachableError

from .fake_tower import FakeTower, Request, problem, raw, reply

ITN = "/itineraries/itn_1"
LOG = "/runs/run_1/log"


@pytest.fixture
def tower(tmp_path: Path) -> Iterator[FakeTower]:
    with FakeTower(tmp_path / "t.sock") as fake:
        yield fake


@pytest.fixture
def api(tower: FakeTower) -> Api:
    return Api(str(tower.path), {}, None, seconds=2.0)


def test_each_answer_is_asked_for_after_the_last_one(tower: FakeTower, api: Api) -> None:
    def news(request: Request) -> bytes:
        return reply({"seq": int(request.query.get("after", "0")) + 5})

    tower.routes[f"GET {ITN}"] = news
    seen = [story["seq"] for story in islice(follow.itinerary(api, "itn_1", lambda _: None), 3)]
    assert seen == [5, 10, 15]
    assert [request.query for request in tower.requests] == [
        {},
        {"wait": "25.0", "after": "5"},
        {"wait": "25.0", "after": "10"},
    ]


def test_a_restart_is_waited_out_and_said_once(tower: FakeTower, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "RETRY_SECONDS", 0.01)
    answers = iter(
        [
            reply({"seq": 1}),
            reply({"seq": 2})[:-3],  # killed while it answered
            problem(503, "stopping", "cannot answer: stopping"),
            reply({"seq": 2}),
        ]
    )
    tower.routes[f"GET {ITN}"] = lambda _: next(answers)
    heard: list[str] = []
    assert [story["seq"] for story in islice(follow.itinerary(api, "itn_1", heard.append), 2)] == [1, 2]
    assert len(heard) == 1


def test_a_tower_that_does_not_come_back_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(follow, "RETURN_SECONDS", 0.1)
    with FakeTower(tmp_path / "t.sock", {f"GET {ITN}": reply({"seq": 1})}) as tower:
        stories = follow.itinerary(Api(str(tower.path), {}, None), "itn_1", lambda _: None)
        next(stories)
    with pytest.raises(UnreachableError, match="any more"):
        next(stories)


def test_a_tower_that_never_was_is_not_waited_for(tmp_path: Path) -> None:
    with pytest.raises(UnreachableError) as caught:
        next(follow.itinerary(Api(str(tmp_path / "no"), {}, None), "itn_1", lambda _: None))
    assert caught.value.code == "unreachable"


def test_another_answer_is_not_asked_for_again(tower: FakeTower, api: Api) -> None:
    with pytest.raises(NotFoundError):
        next(follow.itinerary(api, "itn_1", lambda _: None))
    assert len(tower.requests) == 1


class Log:
    """Serves a log as the tower does: logical offsets, pages, a middle that was dropped."""

    def __init__(self, data: bytes, *, page: int, dropped: tuple[int, int] = (0, 0), ended: bool = True) -> None:
        self.data, self.page, self.dropped, self.ended = data, page, dropped, ended

    def __call__(self, request: Request) -> bytes:
        offset = int(request.query["offset"])
        if offset < 0:
            offset = max(0, len(self.data) + offset)
        begin, end = self.dropped
        if begin <= offset < end:
            offset = end
        stop = begin if offset < begin else len(self.data)
        body = self.data[offset : min(offset + self.page, stop)]
        following = offset + len(body)
        over = self.ended and following >= len(self.data)
        return raw(
            200,
            body,
            "application/octet-stream",
            X_Offset=str(offset),
            X_Next_Offset=str(following),
            X_Ended="1" if over else "0",
        )


def pieces(api: Api, *, offset: int = 0, following: bool = True) -> list[follow.Piece]:
    return list(follow.log(api, "run_1", lambda _: None, stream="stdout", offset=offset, follow=following))


def test_a_log_is_read_page_by_page_to_its_end(tower: FakeTower, api: Api) -> None:
    data = bytes(range(256)) * 4
    tower.routes[f"GET {LOG}"] = Log(data, page=100)
    assert b"".join(piece.data for piece in pieces(api)) == data
    assert tower.requests[0].query["stream"] == "stdout"


def test_a_log_of_a_running_run_ends_where_it_ends_now_unless_it_is_followed(tower: FakeTower, api: Api) -> None:
    tower.routes[f"GET {LOG}"] = Log(b"so far", page=4, ended=False)
    assert b"".join(piece.data for piece in pieces(api, following=False)) == b"so far"
    assert {request.query["wait"] for request in tower.requests} == {"0.0"}


def test_bytes_that_were_cut_out_are_counted(tower: FakeTower, api: Api) -> None:
    tower.routes[f"GET {LOG}"] = Log(b"headMIDDLEtail", page=100, dropped=(4, 10))
    assert [(piece.offset, piece.data, piece.dropped) for piece in pieces(api)] == [(0, b"head", 0), (10, b"tail", 6)]


def test_the_end_alone_can_be_asked_for(tower: FakeTower, api: Api) -> None:
    tower.routes[f"GET {LOG}"] = Log(b"0123456789", page=100)
    assert [(piece.offset, piece.data, piece.dropped) for piece in pieces(api, offset=-3)] == [(7, b"789", 0)]


def test_an_answer_without_offsets_is_no_log(tower: FakeTower, api: Api) -> None:
    tower.routes[f"GET {LOG}"] = raw(200, b"x", "text/plain")
    with pytest.raises(UnreachableError, match="x-offset"):
        pieces(api)
