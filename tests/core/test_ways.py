"""What the ways into a factory can wake: per scope, within hops and generations."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tower.core.routes import Join, JoinKind, Route, RouteMode
from tower.core.ways import UNBOUNDED, WayIn, extent

NAMES = "abcdef"


def routes(*pairs: str) -> list[Route]:
    """`ab` is a route from a to b; `ab!` one that opens a chain; `ab p` one for the chains of pipeline p."""
    return [
        Route(
            sender=pair[0],
            receiver=pair[1],
            mode=RouteMode.SPAWN if "!" in pair else RouteMode.ASYNC,
            pipelines=frozenset(pair.split()[1:]) or None,
        )
        for pair in pairs
    ]


def straight(*entries: str) -> list[WayIn]:
    return [WayIn(entry=entry) for entry in entries]


def test_depth_is_counted_from_the_nearest_way_in() -> None:
    found = extent(straight("a", "x"), routes("ab", "bc", "cd", "xd", "da", "ef"))
    assert found.depth == {"a": 0, "x": 0, "b": 1, "d": 1, "c": 2}
    assert set(found.generation.values()) == {0}


def test_a_chain_that_is_opened_has_hops_of_its_own() -> None:
    found = extent(straight("a"), routes("ab", "bc!", "cd", "de"), hops=2)
    assert found.depth == {"a": 0, "b": 1, "c": 0, "d": 1}
    assert found.generation == {"a": 0, "b": 0, "c": 1, "d": 1}
    assert found.deliveries == {("a", "b"), ("b", "c"), ("c", "d")}


def test_chains_open_chains_as_deep_as_they_may() -> None:
    found = extent(straight("a"), routes("ab!", "bc!", "cd!"), generations=2)
    assert found.generation == {"a": 0, "b": 1, "c": 2}
    assert ("c", "d") not in found.deliveries


def test_a_scoped_route_serves_the_chains_of_its_pipelines_and_those_that_they_open() -> None:
    edges = routes("ab p", "bc! p", "cd p", "ae q")
    assert extent([WayIn(entry="a", pipeline="p")], edges).depth.keys() == set("abcd")
    assert extent([WayIn(entry="a", pipeline="q")], edges).depth.keys() == set("ae")
    assert extent(straight("a"), edges).depth.keys() == set("a")


def joined(kind: JoinKind, senders: str, receiver: str, count: int | None = None) -> list[Route]:
    join = Join(kind=kind, senders=tuple(senders), count=count)
    return [Route(sender=sender, receiver=receiver, join=join) for sender in senders]


def test_a_join_opens_when_one_chain_brings_enough_senders() -> None:
    fan = [*routes("ab", "ac"), *joined(JoinKind.ALL, "bc", "d")]
    found = extent(straight("a"), fan)
    assert found.depth["d"] == 2
    assert found.opens("d", fan[-1].join)
    assert extent(straight("b"), fan).missing == {("d", fan[-1].join): frozenset("c")}


def test_what_two_chains_deliver_is_not_joined() -> None:
    join = joined(JoinKind.ALL, "bc", "d")
    for ways, edges in ((straight("a"), routes("ab!", "ac!")), (straight("b", "c"), [])):
        found = extent(ways, [*edges, *join])
        assert "d" not in found.depth
        assert not found.opens("d", join[0].join)
        assert len(found.missing["d", join[0].join]) == 1
        assert "d" in extent(ways, [*edges, *join], joined=False).depth


def test_a_quorum_opens_without_those_that_are_missing() -> None:
    join = joined(JoinKind.QUORUM, "bcx", "d", 2)
    found = extent(straight("a"), [*routes("ab", "ac"), *join])
    assert found.opens("d", join[0].join)
    assert found.missing["d", join[0].join] == frozenset("x")


def test_a_joined_receiver_has_the_hops_of_the_longest_way_to_it() -> None:
    join = joined(JoinKind.ALL, "bd", "e")
    edges = [*routes("ab", "bc", "cd"), *join]
    assert extent(straight("a"), edges).depth["e"] == 4
    assert not extent(straight("a"), edges, hops=4).opens("e", join[0].join)


def test_a_join_that_no_chain_may_use_opens_for_none() -> None:
    join = joined(JoinKind.ANY, "ab", "c")
    assert not extent([], join).opens("c", join[0].join)


@given(
    st.lists(st.sampled_from(NAMES), max_size=2),
    st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES), st.booleans()), max_size=12),
    st.integers(1, 4) | st.just(UNBOUNDED),
    st.integers(0, 3) | st.just(UNBOUNDED),
)
def test_it_finds_what_walking_every_way_finds(
    entries: list[str], ends: list[tuple[str, str, bool]], hops: int, generations: int
) -> None:
    edges = [
        Route(sender=one, receiver=two, mode=RouteMode.SPAWN if spawn else RouteMode.ASYNC) for one, two, spawn in ends
    ]
    walked = {(entry, 0, 0) for entry in entries}
    front = list(walked)
    for agent, depth, generation in front:
        for edge in edges:
            if edge.sender != agent:
                continue
            spawns = edge.mode is RouteMode.SPAWN
            step = (edge.receiver, 0, generation + 1) if spawns else (edge.receiver, depth + 1, generation)
            # No shortest way passes an agent twice.
            short = step[1] < min(hops, len(NAMES)) and step[2] <= min(generations, len(NAMES))
            if short and step not in walked:
                walked.add(step)
                front.append(step)
    found = extent(straight(*entries), edges, hops=hops, generations=generations)
    names = {agent for agent, _, _ in walked}
    assert found.depth == {name: min(depth for agent, depth, _ in walked if agent == name) for name in names}
    assert found.generation == {name: min(at for agent, _, at in walked if agent == name) for name in names}
