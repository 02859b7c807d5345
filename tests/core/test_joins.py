"""Joins: the table of arrivals, when a barrier opens or is given up, and any order of events against a simple model."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tower.core.joins import (
    Action,
    Barrier,
    Chain,
    Delivery,
    Park,
    Release,
    Standing,
    Strand,
    Supersede,
    arrive,
    by_hand,
    look,
    standing,
)
from tower.core.reach import Place
from tower.core.routes import Join, JoinKind, Route
from tower.core.states import FlightState, Outcome

GOOD, BAD, PENDING = Standing.GOOD, Standing.BAD, Standing.PENDING
SENDERS = ("a", "b", "c")


def join(kind: JoinKind = JoinKind.ALL, **changes: Any) -> Join:
    return Join(kind=kind, senders=SENDERS, **changes)


def barrier(*parked: Delivery, **changes: Any) -> Barrier:
    return Barrier(receiver="r", **{"join": join(), "parked": parked, "since": 10.0 if parked else None} | changes)


def delivery(sender: str, standing: Standing = GOOD, flight: str = "", hops: int = 5, origin: str = "") -> Delivery:
    flight = flight or sender
    return Delivery(
        flight=flight, sender=sender, standing=standing, hops=hops, origin=frozenset({origin or f"to-{flight}"})
    )


def chain(one: Barrier, *alive: str) -> Chain:
    """A chain in which `root` may send to every sender, and these to the receiver."""
    edges = [("root", sender) for sender in SENDERS] + [(sender, "r") for sender in SENDERS]
    return Chain(
        routes=tuple(Route(sender=a, receiver=b, join=one.join if b == "r" else None) for a, b in edges),
        places=tuple(Place(agent=agent, hops=9) for agent in alive),
        barriers={"r": one},
    )


def seen(one: Barrier, *alive: str, now: float = 11.0) -> tuple[Barrier, tuple[Action, ...]]:
    after, done = look(chain(one, *alive), now)
    assert look(after, now)[1] == (), "looking twice did something more"
    return after.barriers["r"], done


def arrived(one: Barrier, new: Delivery, *, is_answer: bool = False) -> tuple[Barrier, tuple[Action, ...]]:
    return arrive(one, new, 20.0, is_answer=is_answer)


# What is delivered


def test_a_first_delivery_is_parked() -> None:
    after, done = arrived(barrier(), delivery("a"))
    assert done == (Park("r", ("a",)),)
    assert (after.wave, after.since, after.missing) == (1, 20.0, ("b", "c"))


def test_time_counts_from_the_first_delivery_of_a_wave() -> None:
    assert arrived(barrier(delivery("a")), delivery("b"))[0].since == 10.0


def test_a_delivery_anew_begins_a_wave_and_supersedes_what_was_parked() -> None:
    after, done = arrived(barrier(delivery("a"), delivery("b")), delivery("a", flight="a2"))
    assert done[0] == Supersede("r", ("a", "b"), "a delivered anew before all others had: all deliver again")
    assert done[1] == Park("r", ("a2",))
    assert (after.wave, after.missing, after.since) == (2, ("b", "c"), 20.0)


@pytest.mark.parametrize(
    ("earlier", "again"),
    [
        (delivery("a", PENDING, origin="o"), delivery("a", PENDING, "a2", origin="o")),
        (delivery("a", BAD), delivery("a", PENDING, "a2")),
    ],
    ids=["by the same work", "after work that failed"],
)
def test_a_correction_replaces_the_senders_own_delivery_alone(earlier: Delivery, again: Delivery) -> None:
    after, done = arrived(barrier(earlier, delivery("b")), again)
    assert done == (Supersede("r", ("a",), "a delivered another in its place"), Park("r", ("a2",)))
    assert (after.wave, after.missing) == (1, ("c",))


def test_what_comes_after_any_is_superseded_and_said_until_all_had_their_say() -> None:
    fired = barrier(join=join(JoinKind.ANY), answered=frozenset("a"))
    late, done = arrived(fired, delivery("b"))
    assert done == (Supersede("r", ("b",), "r had been woken without it"),)
    after, _ = arrived(late, delivery("c"))
    assert (after.wave, after.answered) == (2, frozenset())


@pytest.mark.parametrize(("sender", "is_answer"), [("a", False), ("b", True)])
def test_after_any_a_second_delivery_and_an_answer_to_the_receiver_begin_a_wave(sender: str, is_answer: bool) -> None:
    fired = barrier(join=join(JoinKind.ANY), answered=frozenset("a"))
    after, done = arrived(fired, delivery(sender, flight="new"), is_answer=is_answer)
    assert done == (Park("r", ("new",)),)
    assert (after.wave, after.answered) == (2, frozenset())


def test_who_was_missing_brings_back_what_was_given_up() -> None:
    after, done = arrived(barrier(delivery("a"), delivery("b"), is_given_up=True), delivery("c"))
    assert done == (Park("r", ("a", "b", "c")),)
    assert (after.is_given_up, after.since) == (False, 20.0)
    assert seen(after)[1] == (Release("r", ("a", "b", "c"), 5),)


# When it opens


@pytest.mark.parametrize(
    ("parked", "alive", "expected"),
    [
        ("abc", "", ("a", "b", "c")),
        ("cab", "", ("a", "b", "c")),
        ("ab", "root", None),
        ("ab", "c", None),
        ("ab", "b", ()),
        ("ab", "", ()),
    ],
)
def test_all(parked: str, alive: str, expected: tuple[str, ...] | None) -> None:
    """None: it waits; (): it is given up."""
    one = barrier(*(delivery(it, hops=9 - number) for number, it in enumerate(parked)))
    after, done = seen(one, *alive.split())
    if expected:
        assert done == (Release("r", expected, 9 - len(parked) + 1),)
        assert (after.wave, after.parked) == (2, ())
    elif expected is None:
        assert done == ()
    else:
        assert isinstance(done[0], Strand)
        assert (done[0].flights, done[0].missing) == (("a", "b"), ("c",))
        assert after.is_given_up


def test_work_that_is_not_over_keeps_it_shut_and_work_that_failed_does_not_count() -> None:
    assert seen(barrier(delivery("a"), delivery("b"), delivery("c", PENDING)), "c")[1] == ()
    _, done = seen(barrier(delivery("a"), delivery("b"), delivery("c", BAD)))
    assert done[0] == Strand("r", ("a", "b", "c"), ("c",), "nothing is under way any more that could make c deliver")


def test_any_wakes_with_the_first_good_one() -> None:
    one = barrier(delivery("b", PENDING), delivery("c"), join=join(JoinKind.ANY))
    after, done = seen(one, "b")
    assert done == (Release("r", ("c",), 5), Supersede("r", ("b",), "r was woken without it"))
    assert (after.wave, after.answered) == (1, frozenset("bc"))


def test_a_quorum_and_a_quorum_of_all() -> None:
    two = join(JoinKind.QUORUM, count=2)
    assert seen(barrier(delivery("b"), join=two), "root")[1] == ()
    after, done = seen(barrier(delivery("c"), delivery("b"), join=two), "root")
    assert done == (Release("r", ("b", "c"), 5),)
    assert after.answered == frozenset("bc")
    every = barrier(*map(delivery, SENDERS), join=join(JoinKind.QUORUM, count=3))
    assert seen(every)[0].wave == 2


@pytest.mark.parametrize(
    ("parked", "alive", "expected"),
    [
        ([delivery("b")], "root", None),
        ([delivery("b")], "b", None),
        ([delivery("b"), delivery("a", PENDING)], "a", None),
        ([delivery("b"), delivery("a", PENDING)], "", None),
        ([delivery("b")], "r", ("b",)),
        ([delivery("b"), delivery("a")], "", ("a", "b")),
        ([delivery("b"), delivery("a", BAD)], "", ("b",)),
    ],
)
def test_settled(parked: list[Delivery], alive: str, expected: tuple[str, ...] | None) -> None:
    after, done = seen(barrier(*parked, join=join(JoinKind.SETTLED)), *alive.split())
    assert [it.flights for it in done if isinstance(it, Release)] == ([expected] if expected else [])
    assert after.wave == (2 if expected else 1)


def test_settled_with_nothing_that_counts_is_given_up() -> None:
    _, done = seen(barrier(delivery("a", BAD), join=join(JoinKind.SETTLED)))
    assert isinstance(done[0], Strand)


def test_two_settled_barriers_do_not_wait_for_each_other_for_ever() -> None:
    ends = [("x", "y"), ("y", "x"), ("p", "x"), ("q", "y")]
    joined = {
        it: Join(kind=JoinKind.SETTLED, senders=("x" if it == "y" else "y", "p" if it == "x" else "q")) for it in "xy"
    }
    both = Chain(
        routes=tuple(Route(sender=a, receiver=b, join=joined[b]) for a, b in ends),
        places=(),
        barriers={
            it: Barrier(receiver=it, join=joined[it], parked=(delivery(sender),), since=1.0)
            for it, sender in (("x", "p"), ("y", "q"))
        },
    )
    after, done = look(both, 2.0)
    assert done == (Release("x", ("p",), 5),)
    assert after.barriers["y"].parked, "what was woken first may still deliver here"
    assert look(replace(after, places=()), 3.0)[1] == (Release("y", ("q",), 5),)


def test_a_barrier_that_opens_on_the_way_is_a_way() -> None:
    """x waits for r, whose own barrier opens when the work of c has ended well."""
    behind = Join(kind=JoinKind.ALL, senders=("r", "z"))
    whole = chain(barrier(delivery("a"), delivery("b"), delivery("c", PENDING)), "c")
    routes = tuple(Route(sender=it, receiver="x", join=behind) for it in behind.senders)
    second = Barrier(receiver="x", join=behind, parked=(delivery("z"),), since=1.0)
    whole = replace(whole, routes=whole.routes + routes, barriers={**whole.barriers, "x": second})
    assert look(whole, 2.0)[1] == ()
    failed = barrier(delivery("a"), delivery("b"), delivery("c", BAD))
    _, done = look(replace(whole, places=(), barriers={**whole.barriers, "r": failed}), 2.0)
    assert [it.receiver for it in done if isinstance(it, Strand)] == ["r", "x"]


def test_hops_bound_who_can_still_deliver() -> None:
    one = barrier(delivery("a"), delivery("b"))
    short = replace(chain(one), places=(Place(agent="root", hops=1),))
    assert isinstance(look(short, 11.0)[1][0], Strand)


# When time is up, and when a person decides


@pytest.mark.parametrize("kind", JoinKind)
def test_what_has_not_come_in_time_is_not_waited_for(kind: JoinKind) -> None:
    limited = join(kind, timeout_sec=5.0, count=2 if kind is JoinKind.QUORUM else None)
    one = barrier(delivery("b", PENDING if kind is JoinKind.ANY else GOOD), join=limited)
    assert one.due_at == 15.0
    assert seen(one, "root", now=14.9)[1] == ()
    after, done = seen(one, "root", now=15.0)
    if kind is JoinKind.SETTLED:
        assert done == (Release("r", ("b",), 5),)
    else:
        assert isinstance(done[0], Strand)
        assert "did not deliver within 5 s" in done[0].words
        assert (after.is_given_up, after.due_at) == (True, None)


def test_given_up_for_time_it_still_opens_when_the_rest_comes() -> None:
    one = barrier(*map(delivery, SENDERS), is_given_up=True)
    assert seen(one)[1] == (Release("r", SENDERS, 5),)


def test_by_hand_the_receiver_wakes_with_what_is_there_whatever_it_counts() -> None:
    after, done = by_hand(barrier(delivery("c", BAD), delivery("a", PENDING), is_given_up=True))
    assert done == (Release("r", ("a", "c"), 5),)
    assert (after.parked, after.is_given_up, after.answered) == ((), False, frozenset("ac"))
    assert arrived(after, delivery("b"))[1] == (Supersede("r", ("b",), "r had been woken without it"),)


@pytest.mark.parametrize(
    ("woken_by", "accept", "expected"),
    [
        ([(FlightState.LANDED, Outcome.SUCCEEDED)], False, GOOD),
        ([(FlightState.LANDED, Outcome.SUSPECT)], False, BAD),
        ([(FlightState.LANDED, Outcome.SUSPECT)], True, GOOD),
        ([(FlightState.LANDED, Outcome.FAILED)], True, BAD),
        ([(FlightState.LANDED, Outcome.SUCCEEDED), (FlightState.RUNNING, None)], False, PENDING),
        ([(FlightState.QUEUED, None)], False, PENDING),
        ([(FlightState.HELD, None)], False, PENDING),
        ([(FlightState.HALTED, Outcome.HALTED)], False, PENDING),
        ([(FlightState.DEAD, Outcome.INTERRUPTED)], True, BAD),
        ([(FlightState.CANCELLED, Outcome.CANCELLED)], True, BAD),
    ],
)
def test_what_a_delivery_is_worth(
    woken_by: list[tuple[FlightState, Outcome | None]], accept: bool, expected: Standing
) -> None:
    assert standing(woken_by, join(accept_suspect=accept)) is expected


KINDS = st.sampled_from([join(), join(JoinKind.ANY), join(JoinKind.QUORUM, count=2), join(JoinKind.SETTLED)])


class AnyOrder(RuleBasedStateMachine):
    """One root gives work to senders, who deliver, go on, end well or badly, in any order.

    The model knows of each flight what became of it, and who is alive; it has no waves and no barriers.
    """

    @initialize(kind=KINDS)
    def begin(self, kind: Join) -> None:
        self.barrier = Barrier(receiver="r", join=kind)
        self.is_root_alive = True
        self.alive: dict[str, str] = {}
        """Work -> its agent."""
        self.ended: dict[str, Standing] = {}
        self.parked: dict[str, tuple[str, str]] = {}
        """Flight -> sender, work."""
        self.over: set[str] = set()
        """Flights that woke the receiver or were superseded."""
        self.numbers = count(1)

    @precondition(lambda self: self.is_root_alive)
    @rule(sender=st.sampled_from(SENDERS))
    def gives_work(self, sender: str) -> None:
        self.alive[f"w{next(self.numbers)}"] = sender

    @precondition(lambda self: self.alive)
    @rule(data=st.data(), is_answer=st.booleans())
    def delivers(self, data: st.DataObject, is_answer: bool) -> None:
        work = data.draw(st.sampled_from(sorted(self.alive)))
        flight = f"f{next(self.numbers)}"
        self.parked[flight] = (self.alive[work], work)
        new = Delivery(flight=flight, sender=self.alive[work], hops=5, origin=frozenset({work}))
        others = {it: self.parked[it][0] for it in self.parked if it != flight}
        one, done = arrive(self._as_now(), new, 1.0, is_answer=is_answer)
        gone = {it for action in done if isinstance(action, Supersede) for it in action.flights}
        if flight not in gone:
            assert {it for it in others if others[it] == new.sender} <= gone, "two deliveries of one sender"
        else:
            assert self.barrier.answered, "refused by a wave that had woken nobody"
        self._follow(one, done)

    @precondition(lambda self: self.alive)
    @rule(data=st.data(), how=st.sampled_from([GOOD, BAD]))
    def ends(self, data: st.DataObject, how: Standing) -> None:
        work = data.draw(st.sampled_from(sorted(self.alive)))
        del self.alive[work]
        self.ended[work] = how
        self._follow(self._as_now(), ())

    @rule()
    def root_ends(self) -> None:
        self.is_root_alive = False
        self._follow(self._as_now(), ())

    @precondition(lambda self: self.parked)
    @rule()
    def is_released_by_hand(self) -> None:
        self._follow(*by_hand(self._as_now()))

    def _as_now(self) -> Barrier:
        """The barrier with what became of the work meanwhile, as the store would tell."""
        worth = {flight: self.ended.get(work, PENDING) for flight, (_, work) in self.parked.items()}
        return replace(self.barrier, parked=tuple(replace(it, standing=worth[it.flight]) for it in self.barrier.parked))

    def _follow(self, one: Barrier, done: tuple[Action, ...]) -> None:
        whole = chain(one, *(["root"] if self.is_root_alive else []), *self.alive.values())
        after, more = look(whole, 2.0)
        self.barrier = after.barriers["r"]
        for action in more:
            if isinstance(action, Release):
                assert all(self.ended.get(self.parked[it][1]) is GOOD for it in action.flights)
                assert len(action.flights) >= one.join.needed
        for action in (*done, *more):
            if isinstance(action, Release | Supersede):
                assert self.over.isdisjoint(action.flights), "something happened twice to a flight"
                self.over.update(action.flights)
                for flight in action.flights:
                    del self.parked[flight]

    @invariant()
    def what_is_parked_is_what_nothing_became_of(self) -> None:
        assert {it.flight for it in self.barrier.parked} == self.parked.keys()

    @invariant()
    def it_waits_only_while_it_must_and_may(self) -> None:
        if not self.parked or self.barrier.answered:
            return
        worth = [self.ended.get(work, PENDING) for _, work in self.parked.values()]
        coming = {*self.alive.values()} | ({*SENDERS} if self.is_root_alive else set())
        counted = {sender for sender, work in self.parked.values() if self.ended.get(work) is not BAD}
        if self.barrier.join.kind is JoinKind.SETTLED:
            assert coming or GOOD not in worth
        else:
            assert worth.count(GOOD) < self.barrier.join.needed
        if not self.barrier.is_given_up:
            assert len(counted | coming) >= self.barrier.join.needed


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(max_examples=80, stateful_step_count=25, deadline=None)
