"""What is said to be enforced, and what is not."""

from __future__ import annotations

from typing import Any

import pytest

from tower.core.bounds import bounds
from tower.core.factory import Access, Agent, Factory, Settings
from tower.core.prompts import Prompt
from tower.core.routes import Route


def said(enforced: bool, *, shared: bool = False, **changes: Any) -> list[str]:
    agent = Agent(name="a", runner="r", instructions=Prompt.of("x"), work_dir="/w", **changes)
    settings = Settings(state_dir="/s", work_dir="/w", socket="/s/sock", shared_writers=shared)
    routes = (Route(sender="a", receiver="c"), Route(sender="a", receiver="b"), Route(sender="b", receiver="a"))
    factory = Factory(path="/f", digest="", settings=settings, agents={"a": agent}, runners={}, routes=routes)
    return [it.words for it in bounds(factory, agent) if it.enforced is enforced]


def test_the_live_tree() -> None:
    assert "it works in the live tree /w, as the only run of the tower that writes there" in said(True)
    assert "it works in the live tree /w, beside other writers" in said(True, shared=True)
    assert "it is to stay in /w; nothing prevents it from writing elsewhere" in said(False)


def test_a_snapshot() -> None:
    enforced, advisory = (said(it, access=Access.READ_ONLY) for it in (True, False))
    assert "what it changes in its snapshot goes with it" in enforced
    assert "it could write to the live tree by its absolute path, /w" in advisory
    assert not any("live tree" in words for words in enforced)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "a run is ended after 3600 s"),
        ({"resident": True}, "a turn is ended after 3600 s"),
        ({"stall_sec": 60.0}, "a run that prints nothing for 60 s is ended"),
        ({"first_output_sec": 30.0}, "a run that prints nothing in its first 30 s is ended"),
        ({}, "it can send to b, c, along its routes"),
    ],
)
def test_limits(changes: dict[str, Any], words: str) -> None:
    assert words in said(True, **changes)


def test_what_is_not_limited_is_not_said_to_be() -> None:
    assert not any("prints nothing" in words for words in said(True))


def test_other_runs_and_the_network_are_not_out_of_reach() -> None:
    assert {"it can use the network"} <= set(said(False))
    assert any("/proc" in words for words in said(False))
