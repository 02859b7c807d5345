"""What is said to be enforced, and what is not."""

from __future__ import annotations

from typing import Any

import pytest

from tower.core.bounds import bounds
from tower.core.confinement import BEYOND, Abilities, confine
from tower.core.factory import Access, Agent, Factory, Runner, Settings
from tower.core.prompts import Prompt
from tower.core.routes import Route

BARE = Abilities(no_bubblewrap="it is not installed", no_landlock="the kernel has none")
WALLED = Abilities(bubblewrap="/usr/bin/bwrap", no_bubblewrap="", no_overlay="")


def said(enforced: bool, *, shared: bool = False, can: Abilities = BARE, **changes: Any) -> list[str]:
    agent = Agent(name="a", runner="r", instructions=Prompt.of("x"), work_dir="/w", **changes)
    runner = Runner(name="r", kind="cmd", command=("true",))
    settings = Settings(state_dir="/s", work_dir="/w", socket="/s/sock", shared_writers=shared)
    routes = (Route(sender="a", receiver="c"), Route(sender="a", receiver="b"), Route(sender="b", receiver="a"))
    factory = Factory(
        path="/f", digest="", settings=settings, agents={"a": agent}, runners={"r": runner}, routes=routes
    )
    return [it.words for it in bounds(factory, agent, confine(agent, runner, can)) if it.enforced is enforced]


def test_the_live_tree() -> None:
    assert said(True)[0] == "it works in the live tree /w, as the only run of the tower that writes there"
    assert said(True, shared=True)[0] == "it works in the live tree /w, beside other writers"


def test_a_snapshot() -> None:
    assert said(True, access=Access.READ_ONLY)[0] == "it works in a snapshot of /w"
    assert not any("live tree" in words for words in said(True, access=Access.READ_ONLY))


def test_without_a_sandbox_it_is_said_what_nothing_prevents() -> None:
    assert any("could write to anything that the tower's user can write" in words for words in said(False))
    assert not any("could write to anything" in words for words in said(False, can=WALLED))
    assert any("it can write to its workspace" in words for words in said(True, can=WALLED))


def test_a_sandbox_that_is_required_and_not_to_be_had_is_said_first() -> None:
    assert said(True, sandbox="require")[0].startswith("no run of it starts: no sandbox is to be had here")
    assert not any("no run of it starts" in words for words in said(True, sandbox="require", can=WALLED))


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


def test_the_network_is_said_to_be_there_unless_it_is_not() -> None:
    assert "it has the machine's network" in said(False)
    assert "it has the machine's network" not in said(False, can=WALLED, network=False)
    assert "bubblewrap: it has no network" in said(True, can=WALLED, network=False)
    assert said(False)[-1] == BEYOND
