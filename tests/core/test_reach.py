"""How far flights can get, against a model that tries everything, and against chains that are played."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from tower.core.reach import Barrier, Place, Reachable, reachable
from tower.core.routes import Route, RouteMode

NAMES = "abcdef"


def routes(*pairs: str) -> list[Route]:
    """`ab` is a route from a to b; `ab!` one that opens a chain."""
    return [
        Route(sender=pair[0], receiver=pair[1], mode=RouteMode.SPAWN if pair.endswith("!") else RouteMode.ASYNC)
        for pair in pairs
    ]


def place(agent: str, hops: int) -> Place:
    return Place(agent=agent, hops=hops)


def join(receiver: str, senders: str, needed: int | None = None, **parked: int) -> Barrier:
    return Barrier(
        receiver=receiver,
        senders=tuple(senders),
        needed=len(senders) if needed is None else needed,
        parked=parked,
    )


def test_each_send_spends_a_hop_and_the_last_flight_sends_nothing() -> None:
    found = reachable([place("a", 2)], routes("ab", "bc", "cd"))
    assert found.agents == {"a": 2, "b": 1, "c": 0}
    assert found.deliveries == {("a", "b"): 1, ("b", "c"): 0}
    assert found.brings("b", "c")
    assert not found.brings("c", "d")


def test_the_place_with_the_most_hops_counts() -> None:
    found = reachable([place("a", 1), place("x", 3), place("x", 0)], routes("ab", "xa", "bc"))
    assert found.agents == {"x": 3, "a": 2, "b": 1, "c": 0}


def test_a_route_that_opens_a_chain_brings_nothing_in_this_one() -> None:
    found = reachable([place("a", 5)], routes("ab!", "ac"))
    assert found.agents == {"a": 5, "c": 4}


def test_a_joined_receiver_wakes_when_every_sender_may_deliver() -> None:
    fan = routes("ab", "ac", "bd", "cd", "de")
    assert "d" not in reachable([place("b", 5)], fan, [join("d", "bc")]).agents
    assert reachable([place("a", 5)], fan, [join("d", "bc")]).agents["e"] == 2
    assert reachable([place("b", 5)], fan, [join("d", "bc", c=3)]).agents["d"] == 3
    assert reachable([place("b", 5)], fan, [join("d", "bc", 1)]).agents["d"] == 4


def test_what_waits_at_a_barrier_alone_brings_nothing() -> None:
    assert reachable([], routes("bd", "cd", "de"), [join("d", "bc", b=4)]) == Reachable(agents={}, deliveries={})


def test_a_missing_sender_that_only_the_receiver_wakes_never_delivers() -> None:
    """A loop whose next round starts at the barrier that it would have to open."""
    loop = routes("ab", "ac", "bd", "cd", "da")
    assert not reachable([place("b", 9)], loop, [join("d", "bc")]).brings("c", "d")
    assert reachable([place("d", 9)], loop, [join("d", "bc", b=1)]).brings("c", "d")


def test_two_barriers_that_wait_for_each_other_stay_shut() -> None:
    crossed = routes("ab", "ac", "bd", "cd", "db", "dc")
    barriers = [join("b", "ad"), join("c", "ad")]
    assert reachable([place("a", 9)], crossed, barriers).agents == {"a": 9}


def test_a_sender_that_a_barrier_does_not_name_wakes_its_receiver() -> None:
    found = reachable([place("x", 2)], routes("xd", "bd", "cd"), [join("d", "bc")])
    assert found.agents == {"x": 2, "d": 1}


def test_what_is_parked_may_wake_its_receiver_with_more_hops_than_were_on_the_way() -> None:
    found = reachable([place("b", 2)], routes("bc", "cc"), [join("c", "ca", 1, c=2)])
    assert found.agents == {"b": 2, "c": 2}
    assert found.deliveries == {("b", "c"): 1, ("c", "c"): 1}


pairs = st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES))
edges = st.lists(
    st.builds(
        lambda ends, mode: Route(sender=ends[0], receiver=ends[1], mode=mode),
        pairs,
        st.sampled_from([RouteMode.ASYNC, RouteMode.ASYNC, RouteMode.ASYNC, RouteMode.SPAWN]),
    ),
    unique_by=lambda route: (route.sender, route.receiver),
    max_size=14,
)
spots = st.lists(st.builds(Place, agent=st.sampled_from(NAMES), hops=st.integers(0, 5)), max_size=4)


@st.composite
def waits(draw: st.DrawFn) -> list[Barrier]:
    barriers = []
    for receiver in draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=3)):
        senders = draw(st.lists(st.sampled_from(NAMES), unique=True, min_size=2, max_size=3))
        needed = draw(st.integers(1, len(senders)))
        # One that is full has been let through, unless it is `settled` and more may come.
        most = len(senders) if needed == 1 else needed - 1
        parked = draw(st.dictionaries(st.sampled_from(senders), st.integers(0, 5), max_size=most))
        barriers.append(Barrier(receiver=receiver, senders=tuple(senders), needed=needed, parked=parked))
    return barriers


def everything(places: Iterable[Place], edges: Sequence[Route], barriers: Sequence[Barrier]) -> Reachable:
    """Every flight that may be, found by trying all that follows from those found until nothing new does."""
    flights = {(place.agent, place.hops) for place in places}
    sent: set[tuple[str, str, int]] = set()
    constrained = {(sender, barrier.receiver) for barrier in barriers for sender in barrier.senders}
    while True:
        sends = {
            (agent, route.receiver, hops - 1)
            for agent, hops in flights
            for route in edges
            if route.sender == agent and hops > 0 and route.mode is RouteMode.ASYNC
        }
        wakes = {(receiver, hops) for sender, receiver, hops in sends if (sender, receiver) not in constrained}
        for barrier in barriers:
            new = [(sender, hops) for sender, receiver, hops in sends if receiver == barrier.receiver]
            for parts in combinations([*new, *barrier.parked.items()], barrier.needed):
                senders = {sender for sender, _ in parts}
                fits = len(senders) == barrier.needed and senders <= set(barrier.senders)
                if fits and any(part in new for part in parts):
                    wakes.add((barrier.receiver, min(hops for _, hops in parts)))
            if barrier.needed == 1 and any(sender in barrier.senders for sender, _ in new):
                # Its other deliveries may come first, and wait for this one.
                wakes |= {(barrier.receiver, hops) for hops in barrier.parked.values()}
        if wakes <= flights and sends <= sent:
            break
        flights |= wakes
        sent |= sends
    return Reachable(
        agents={agent: max(hops for it, hops in flights if it == agent) for agent, _ in flights},
        deliveries={
            (sender, receiver): max(hops for one, two, hops in sent if (one, two) == (sender, receiver))
            for sender, receiver, _ in sent
        },
    )


@given(spots, edges, waits())
def test_it_finds_what_trying_everything_finds(
    places: list[Place], edges: list[Route], barriers: list[Barrier]
) -> None:
    assert reachable(places, edges, barriers) == everything(places, edges, barriers)


@given(spots, edges, waits(), st.randoms(use_true_random=False))
def test_no_chain_that_is_played_does_more(
    places: list[Place], edges: list[Route], barriers: list[Barrier], chance: Random
) -> None:
    """Runs send what they like, waves are superseded: each flight that occurs was foreseen, at every moment."""
    alive = list(places)
    parked = [dict(barrier.parked) for barrier in barriers]
    foreseen: list[Reachable] = []
    for _ in range(30):
        if not alive:
            break
        now = [
            Barrier(receiver=it.receiver, senders=it.senders, needed=it.needed, parked=waiting)
            for it, waiting in zip(barriers, parked, strict=True)
        ]
        foreseen.append(reachable(alive, edges, now))
        run = alive.pop(chance.randrange(len(alive)))
        for route in chance.sample(edges, len(edges)):
            if route.sender != run.agent or run.hops < 1 or route.mode is RouteMode.SPAWN or chance.random() < 0.3:
                continue
            for before in foreseen:
                assert before.deliveries[(run.agent, route.receiver)] >= run.hops - 1
            alive += played(Place(agent=route.receiver, hops=run.hops - 1), run.agent, barriers, parked)


def played(flight: Place, sender: str, barriers: list[Barrier], parked: list[dict[str, int]]) -> list[Place]:
    """What a delivery wakes at once; `parked` is changed as the rules of waves have it."""
    stopped = False
    woken = []
    for barrier, waiting in zip(barriers, parked, strict=True):
        if barrier.receiver != flight.agent or sender not in barrier.senders:
            continue
        stopped = True
        if sender in waiting:
            waiting.clear()
        waiting[sender] = flight.hops
        if len(waiting) >= barrier.needed:
            woken.append(Place(agent=barrier.receiver, hops=min(waiting.values())))
            waiting.clear()
    return woken if stopped else [flight]
