"""What flights can reach, of which nothing is said. What is said of the rest stands in `golden`."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tower.config.load import load
from tower.core.ways import extent, open_routes, ways_in

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


NAMES = "abcde"
routes_of_any_kind = st.lists(
    st.tuples(
        st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True),
        st.sampled_from(NAMES),
        st.sampled_from(["", "", SPAWN, "join = 'all'\n", "join = 'any'\n", "pipelines = 'p'\n"]),
    ),
    max_size=7,
)


@settings(max_examples=150)
@given(
    st.sets(st.sampled_from(NAMES), min_size=1, max_size=2),
    st.sets(st.sampled_from(NAMES), max_size=1),
    st.sampled_from(NAMES),
    routes_of_any_kind,
    st.integers(1, 4),
    st.integers(0, 2),
)
def test_whatever_nothing_wakes_is_said_and_nothing_is_said_where_all_is_well(
    entries: set[str],
    disabled: set[str],
    entry: str,
    routes: list[tuple[list[str], str, str]],
    hops: int,
    generations: int,
) -> None:
    text = f"[layover]\nwork_dir = '/'\n[defaults]\nmax_hops = {hops}\nmax_spawn_generations = {generations}\n"
    text += f"[pipelines.p]\nentry = '{entry}'\n"
    text += "".join(
        agent(name, f"entry = {str(name in entries).lower()}\nenabled = {str(name not in disabled).lower()}\n")
        for name in NAMES
    )
    for senders, receiver, keys in routes:
        if "join" in keys and len(senders) < 2:
            keys = ""
        text += f"[[routes]]\nfrom = {senders}\nto = '{receiver}'\n{keys}"
    with TemporaryDirectory() as folder:
        Path(folder, "layover.toml").write_text(text)
        loaded = load(Path(folder), environ={})
    assume(loaded.factory is not None)
    assert loaded.factory is not None
    made = loaded.factory
    found = extent(ways_in(made), open_routes(made), hops=hops, generations=generations)
    asleep = {name for name, it in made.agents.items() if it.enabled} - found.depth.keys()
    shut = {route for route in made.routes if route.join and not found.opens(route.receiver, route.join)}
    said = {problem.key.split("[")[0].split(".")[0] for problem in loaded.problems}
    if asleep:
        assert said & {"agents", "routes"}
    if not (asleep or shut or disabled) and all("pipelines" not in keys for _, _, keys in routes) and generations == 2:
        assert not [it for it in loaded.problems if "cannot afford" not in it.sentence and "may not" not in it.sentence]
