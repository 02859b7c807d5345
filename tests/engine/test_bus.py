"""Wake-ups: who listens before looking misses nothing, and who left is forgotten."""

from __future__ import annotations

import pytest

from tower.core.records import Event
from tower.engine.bus import ALL, Bus

pytestmark = pytest.mark.anyio


def event(seq: int, **about: str) -> Event:
    return Event(type="test.happened", at=0.0, seq=seq, **about)


async def test_a_commit_wakes_those_whom_it_concerns_and_those_who_listen_to_all() -> None:
    bus = Bus()
    with bus.listening("itn_1") as chain, bus.listening("run_1") as run, bus.listening(ALL) as everything:
        bus.publish([event(1, itinerary="itn_1"), event(2)])
        assert (chain.is_set(), run.is_set(), everything.is_set()) == (True, False, True)
        bus.publish([event(3, run="run_1")])
        assert run.is_set()


async def test_what_happens_between_listening_and_waiting_is_not_missed() -> None:
    bus = Bus()
    with bus.listening("x") as woken:
        bus.pulse("x")
        await woken.wait()


async def test_everybody_is_woken_once_and_nobody_who_left() -> None:
    bus = Bus()
    with bus.listening("x") as first:
        with bus.listening("x") as second:
            pass
        with bus.listening("x") as third:
            bus.pulse("x")
            assert (first.is_set(), second.is_set(), third.is_set()) == (True, False, True)
    assert not bus._waiters


async def test_listeners_hear_every_event_in_order() -> None:
    bus, heard = Bus(), []
    bus.on_event(lambda event: heard.append(("first", event.seq)))
    bus.on_event(lambda event: heard.append(("second", event.seq)))
    bus.publish([event(1), event(2)])
    assert heard == [("first", 1), ("second", 1), ("first", 2), ("second", 2)]
