"""What flights can reach, of which nothing is said. What is said of the rest stands in `golden`."""

from __future__ import annotations

import pytest

from .conftest import Loads

SPAWN = "mode = 'spawn'\n"


def agent(name: str, keys: str = "") -> str:
    return f'[agents.{name}]\ndescription = "d"\nrunner = "none"\nprompt = "x"\n{keys}'


def route(sender: str, receiver: str, keys: str = "") -> str:
    return f"[[routes]]\nfrom = '{sender}'\nto = '{receiver}'\n{keys}"


ENTRY = agent("a", "entry = true\n")


JOIN = "[[routes]]\nfrom = ['a', 'b']\nto = 'c'\njoin = 'all'\n"


REACHED = {
    "by hops that just suffice": "[defaults]\nmax_hops = 2\n" + ENTRY + agent("b") + route("a", "b"),
    "by a chain of its own": "[defaults]\nmax_hops = 1\n" + ENTRY + agent("b") + route("a", "b", SPAWN),
    "by one pipeline of two": ENTRY
    + agent("b")
    + "[pipelines.p]\nentry = 'a'\n[pipelines.q]\nentry = 'b'\n"
    + route("a", "b", "pipelines = ['p', 'q']\n"),
    "by a join of all that one chain brings": ENTRY + agent("b") + agent("c") + route("a", "b") + JOIN,
    "by a join of one": ENTRY + agent("b", "entry = true\n") + agent("c") + JOIN.replace("'all'", "1"),
    "by none, and disabled": ENTRY + agent("b", "enabled = false\n") + route("b", "a"),
}


@pytest.mark.parametrize("text", REACHED.values(), ids=REACHED)
def test_nothing_is_said_of_what_can_be_reached(text: str, loads: Loads) -> None:
    assert loads(text).problems == ()


THREE = """\
[defaults]
max_hops = 2
[pipelines.near]
entry = "b"
[pipelines.far]
entry = "a"
[[routes]]
from = "a"
to = "b"
[[routes]]
from = "b"
to = "c"
pipelines = "PIPELINE"
""" + "".join(f'[agents.{name}]\ndescription = "d"\nrunner = "none"\nprompt = "x"\n' for name in "abc")


def test_an_agent_is_as_far_as_from_the_nearest_way_in_along_the_routes_of_that_chain(loads: Loads) -> None:
    assert [str(it) for it in loads(THREE.replace("PIPELINE", "near")).problems] == []
    (far,) = loads(THREE.replace("PIPELINE", "far")).problems
    assert (far.key, far.sentence) == ("agents.c", "is 3 flights from every way in, and max_hops is 2")
