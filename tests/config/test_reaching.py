"""What no flight can reach: each warning at its place, and no second one about the same cause."""
# ruff: noqa: E501  (a case reads best on one line)

from __future__ import annotations

import dataclasses

import pytest

from .conftest import Loads
from .test_checks import place_of

SPAWN = "mode = 'spawn'\n"


def agent(name: str, keys: str = "") -> str:
    return f'[agents.{name}]\ndescription = "d"\nrunner = "none"\nprompt = "x"\n{keys}'


def route(sender: str, receiver: str, keys: str = "") -> str:
    return f"[[routes]]\nfrom = '{sender}'\nto = '{receiver}'\n{keys}"


ENTRY = agent("a", "entry = true\n")


JOIN = "[[routes]]\nfrom = ['a', 'b']\nto = 'c'\n»join = 'all'\n"


@dataclasses.dataclass(frozen=True)
class Case:
    text: str
    key: str
    sentence: str
    hint: str


WARNINGS = {
    "far along a loop": Case(
        "[defaults]\nmax_hops = 2\n" + ENTRY + agent("b") + agent("»c") + route("a", "b") + route("b", "a") + route("b", "c"),
        "agents.c", "is 3 flights from every way in, and max_hops is 2", "raise max_hops",
    ),
    "far along its own chain": Case(
        "[defaults]\nmax_hops = 1\n" + ENTRY + agent("b") + agent("»c") + route("a", "b", SPAWN) + route("b", "c"),
        "agents.c", "is 2 flights from every way in, and max_hops is 1", "raise max_hops",
    ),
    "chains too deep": Case(
        ENTRY + agent("b") + agent("»c") + route("a", "b", SPAWN) + route("b", "c", SPAWN),
        "agents.c", "is woken by chains that lie 2 below the first alone, and max_spawn_generations is 1", "raise max_spawn",
    ),
    "no chains of their own": Case(
        "[defaults]\nmax_spawn_generations = 0\n" + ENTRY + agent("»b") + route("a", "b", SPAWN),
        "agents.b", "lie 1 below the first alone, and max_spawn_generations is 0", 'write mode = "async"',
    ),
    "a chain that may not be opened": Case(
        ENTRY + agent("b") + route("a", "b", SPAWN) + route("b", "a", "»" + SPAWN),
        "routes[1].mode", "those that reach b may not (max_spawn_generations is 1)", "raise max_spawn_generations",
    ),
    "behind an agent that is disabled": Case(
        ENTRY + agent("b", "enabled = false\n") + agent("»c") + route("a", "b") + route("b", "c"),
        "agents.c", "nothing can wake it", "write entry = true",
    ),
    "a route for a pipeline that does not come there": Case(
        ENTRY + agent("b") + route("a", "b") + "[pipelines.p]\nentry = 'b'\n" + route("a", "b", "»pipelines = 'p'\n"),
        "routes[1].pipelines", "no chain can use this route: none of p reaches a", "name a pipeline",
    ),
    "a pipeline to an agent that is disabled": Case(
        ENTRY + agent("b", "enabled = false\n") + "[pipelines.p]\n»entry = 'b'\n",
        "pipelines.p.entry", "b is disabled", "enable b",
    ),
    "a join of two chains": Case(
        ENTRY + agent("b", "entry = true\n") + agent("c") + JOIN,
        "routes[0].join", "never wakes c: b cannot deliver in a chain in which a can", "how many are enough",
    ),
    "a join behind itself": Case(
        ENTRY + agent("b") + agent("c") + agent("d") + JOIN + route("c", "b") + route("c", "d"),
        "routes[0].join", "never wakes c: b cannot deliver in a chain in which a can", "let routes lead",
    ),
    "a join with an agent that is disabled": Case(
        ENTRY + agent("b", "enabled = false\n") + agent("c") + route("a", "b") + JOIN,
        "routes[1].join", "never wakes c: b cannot deliver", "let routes lead",
    ),
    "a sender that cannot afford its flight": Case(
        "[defaults]\nmax_hops = 3\n" + ENTRY + agent("b") + agent("c") + agent("d")
        + route("a", "d") + route("d", "b") + JOIN.replace("'all'", "'any'"),
        "routes[2].join", "b cannot afford the flight to c: no hop is left there (max_hops is 3)", "raise max_hops",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WARNINGS.values(), ids=WARNINGS)
def test_what_cannot_be_reached_is_warned_about_once_and_at_its_place(case: Case, loads: Loads) -> None:
    loaded = loads(case.text.replace("»", ""))
    (problem,) = loaded.problems
    assert loaded.factory is not None
    assert problem.severity == "warning"
    assert (problem.line, problem.column, problem.key) == (*place_of(case.text), case.key)
    assert case.sentence in problem.sentence
    assert case.hint in problem.hint


PLAIN_JOIN = JOIN.replace("»", "")
REACHED = {
    "by hops that just suffice": "[defaults]\nmax_hops = 2\n" + ENTRY + agent("b") + route("a", "b"),
    "by a chain of its own": "[defaults]\nmax_hops = 1\n" + ENTRY + agent("b") + route("a", "b", SPAWN),
    "by one pipeline of two": ENTRY
    + agent("b")
    + "[pipelines.p]\nentry = 'a'\n[pipelines.q]\nentry = 'b'\n"
    + route("a", "b", "pipelines = ['p', 'q']\n"),
    "by a join of all that one chain brings": ENTRY + agent("b") + agent("c") + route("a", "b") + PLAIN_JOIN,
    "by a join of one": ENTRY + agent("b", "entry = true\n") + agent("c") + PLAIN_JOIN.replace("'all'", "1"),
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
