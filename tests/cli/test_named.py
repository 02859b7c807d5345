"""What ids on the command line may be."""

from __future__ import annotations

import pytest
from client.fake_tower import FakeTower, reply

from tower.cli import named
from tower.client.api import Api
from tower.core.errors import InvalidError, NotFoundError

from .documents import FLT, ITN, RUN, flight, run

SECOND = RUN[:-1] + "2"


@pytest.fixture
def api(fake: FakeTower) -> Api:
    return Api(str(fake.path), {}, None)


@pytest.mark.parametrize(("known", "kind"), [(FLT, "flight"), (ITN, "itinerary"), (RUN, "run")])
def test_a_whole_id_says_itself_what_it_is(fake: FakeTower, api: Api, known: str, kind: str) -> None:
    assert named.find(api, known) == (kind, known)
    assert fake.requests == []


@pytest.mark.parametrize("tail", ["R001", "run_R001", "r001"])
def test_a_tail_is_looked_up(fake: FakeTower, api: Api, tail: str) -> None:
    fake.routes[f"GET /find/{tail}"] = reply({"kind": "run", "id": RUN})
    assert named.find(api, tail) == ("run", RUN)


@pytest.mark.parametrize("text", ["", "..", "a/b", "run_", "R001?x=y", "R 1", "usr_123", "\udcff", "I"])
def test_what_can_be_no_id_is_not_even_asked_about(fake: FakeTower, api: Api, text: str) -> None:
    with pytest.raises(InvalidError, match="cannot look up"):
        named.find(api, text)
    assert fake.requests == []


@pytest.mark.parametrize("known", [FLT, RUN, ITN])
def test_the_chain_of_anything(fake: FakeTower, api: Api, known: str) -> None:
    fake.routes |= {f"GET /flights/{FLT}": reply(flight()), f"GET /runs/{RUN}": reply(run())}
    assert named.itinerary(api, known) == ITN


def test_a_flight_stands_for_its_latest_run(fake: FakeTower, api: Api) -> None:
    fake.routes[f"GET /flights/{FLT}"] = reply(flight(runs=[run(), run(id=SECOND)]))
    assert named.run(api, FLT) == SECOND
    assert named.run(api, RUN) == RUN


def test_a_flight_that_has_not_started_has_no_run(fake: FakeTower, api: Api) -> None:
    fake.routes[f"GET /flights/{FLT}"] = reply(flight(runs=[]))
    with pytest.raises(NotFoundError, match="has not been started"):
        named.run(api, FLT)


def test_a_chain_is_no_run(api: Api) -> None:
    with pytest.raises(InvalidError, match="cannot take"):
        named.run(api, ITN)
