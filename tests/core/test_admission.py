"""Admission: the order of the checks, the order of the starts, and a reason for everything that waits."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tower.core.admission import decide
from tower.core.factory import Access, Agent, Factory, Runner, Settings
from tower.core.prompts import Prompt
from tower.core.rails import Decision, Hold, Rails, Refuse, Seat, Start, Wait, seat_of
from tower.core.records import Flight, Itinerary, Sender
from tower.core.routes import Route
from tower.core.states import HeldReason

PERSON = Sender(kind="person", name="ada")


def agent(name: str, **changes: object) -> Agent:
    plain = Agent(
        name=name,
        runner="cmd:true",
        instructions=Prompt.of("work"),
        work_dir=f"/tree/{name}",
        access=Access.READ_ONLY,
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


def factory(*agents: Agent, routes: tuple[Route, ...] = (), **settings: object) -> Factory:
    plain = Settings(state_dir="/s", work_dir="/tree", socket="/s/tower.sock", min_free_bytes=100)
    return Factory(
        path="/f",
        digest="d",
        settings=replace(plain, **settings),  # type: ignore[arg-type]
        agents={one.name: one for one in agents},
        runners={
            "cmd:true": Runner(name="cmd:true", kind="cmd", command=("true",)),
            "none": Runner(name="none", kind="none"),
        },
        routes=routes,
    )


def flight(name: str, to: str = "a", **changes: object) -> Flight:
    plain = Flight(id=f"flt_{name}", itinerary=f"itn_{name}", sender=PERSON, receiver=to, body="go", created_at=1.0)
    return replace(plain, **changes)  # type: ignore[arg-type]


def chains(*flights: Flight, **changes: object) -> dict[str, Itinerary]:
    plain = Itinerary(id="", created_at=1.0, max_hops=8, max_runs=64, fuel_limit=5_000_000)
    return {one.itinerary: replace(plain, id=one.itinerary, **changes) for one in flights}  # type: ignore[arg-type]


def judge(
    queue: list[Flight], of: Factory, alive: list[Seat] | None = None, rails: Rails | None = None, **chain: object
) -> dict[str, Decision]:
    return decide(
        queue,
        factory=of,
        itineraries=chains(*queue, **chain),
        alive=alive or [],
        rails=rails or Rails(now=10.0, free_bytes=1000),
    )


def seat(**changes: object) -> Seat:
    return replace(Seat(agent="z", runner="other", itinerary="itn_z", tree=None), **changes)  # type: ignore[arg-type]


ALONE = factory(agent("a"))


@pytest.mark.parametrize(
    ("of", "changes", "alive", "rails", "chain", "expected"),
    [
        pytest.param(ALONE, {}, [], {}, {}, Start(), id="nothing in the way"),
        pytest.param(ALONE, {}, [], {"ground_stop": "x"}, {}, HeldReason.GROUND_STOP, id="ground stop"),
        pytest.param(ALONE, {}, [], {"draining": True}, {}, "draining", id="drain"),
        pytest.param(
            ALONE,
            {"sender": Sender(kind="agent", name="b", ref="run_1")},
            [],
            {},
            {},
            HeldReason.AGENT,
            id="route gone",
        ),
        pytest.param(ALONE, {"receiver": "gone"}, [], {}, {}, HeldReason.AGENT, id="agent removed"),
        pytest.param(factory(agent("a", enabled=False)), {}, [], {}, {}, HeldReason.AGENT, id="disabled"),
        pytest.param(factory(agent("a", runner="none")), {}, [], {}, {}, HeldReason.AGENT, id="runner none"),
        pytest.param(ALONE, {}, [], {}, {"cancelled_at": 9.0}, Refuse, id="chain cancelled"),
        pytest.param(ALONE, {}, [], {}, {"runs_started": 64}, Refuse, id="run cap"),
        pytest.param(ALONE, {"not_before": 11.0}, [], {}, {}, "not before", id="not yet due"),
        pytest.param(ALONE, {"not_before": 10.0}, [], {}, {}, Start(), id="due now"),
        pytest.param(ALONE, {}, [seat()] * 4, {}, {}, "all 4 slots", id="slots"),
        pytest.param(
            factory(agent("a", max_concurrent=1)), {}, [seat(agent="a")], {}, {}, "agent a has", id="agent cap"
        ),
        pytest.param(
            factory(agent("a", access=Access.READ_WRITE)), {}, [seat(tree="/tree/a")], {}, {}, "one writer", id="seat"
        ),
        pytest.param(
            factory(agent("a", access=Access.READ_WRITE), shared_writers=True),
            {},
            [seat(tree="/tree/a")],
            {},
            {},
            Start(),
            id="shared writers",
        ),
        pytest.param(ALONE, {}, [], {"free_bytes": 99}, {}, HeldReason.DISK, id="disk floor"),
        pytest.param(ALONE, {}, [], {"free_bytes": None}, {}, Start(), id="disk unknown"),
    ],
)
def test_one_flight_and_one_reason(
    of: Factory, changes: dict, alive: list[Seat], rails: dict, chain: dict, expected: object
) -> None:
    one = flight("1", **changes)
    decision = judge([one], of, alive, Rails(**({"now": 10.0, "free_bytes": 1000} | rails)), **chain)[one.id]
    if isinstance(expected, HeldReason):
        assert isinstance(decision, Hold)
        assert decision.reason is expected
        assert decision.words
    elif isinstance(expected, str):
        assert isinstance(decision, Wait)
        assert expected in decision.words
    elif expected is Refuse:
        assert isinstance(decision, Refuse)
    else:
        assert decision == expected


def test_priority_then_the_chain_with_fewest_runs_then_age() -> None:
    queue = [
        flight("old", created_at=1.0),
        flight("busy", created_at=0.5, itinerary="itn_busy"),
        flight("urgent", created_at=9.0, priority=5),
        flight("new", created_at=2.0),
    ]
    of = factory(agent("a"), max_concurrent_runs=3)
    decisions = judge(queue, of, [seat(itinerary="itn_busy")])
    started = [name for name, decision in decisions.items() if decision == Start()]
    assert started == ["flt_urgent", "flt_old"]
    assert isinstance(decisions["flt_busy"], Wait)


def test_one_agent_at_its_cap_does_not_keep_others_waiting() -> None:
    queue = [flight(f"a{n}", created_at=float(n)) for n in range(50)] + [flight("b", to="b", created_at=99.0)]
    decisions = judge(queue, factory(agent("a", max_concurrent=1), agent("b")))
    assert [name for name, decision in decisions.items() if decision == Start()] == ["flt_a0", "flt_b"]


def test_a_noisy_chain_does_not_starve_another() -> None:
    """B109: who comes last waits for one slot, not for a hundred flights."""
    noisy = [flight(f"n{n}", itinerary="itn_noisy", created_at=float(n)) for n in range(100)]
    quiet = flight("quiet", created_at=500.0)
    decisions = judge([*noisy, quiet], factory(agent("a"), max_concurrent_runs=2))
    assert [name for name, decision in decisions.items() if decision == Start()] == ["flt_n0", "flt_quiet"]


def test_two_writers_of_one_tree_start_one_after_the_other() -> None:
    of = factory(
        agent("a", access=Access.READ_WRITE, work_dir="/t"), agent("b", access=Access.READ_WRITE, work_dir="/t")
    )
    decisions = judge([flight("1"), flight("2", to="b", created_at=2.0)], of)
    assert decisions["flt_1"] == Start()
    assert isinstance(decisions["flt_2"], Wait)


def test_a_run_cap_counts_what_starts_in_the_same_round() -> None:
    queue = [flight(str(n), itinerary="itn_one") for n in range(3)]
    decisions = judge(queue, factory(agent("a"), max_concurrent_runs=9), runs_started=62)
    assert [type(decision) for decision in decisions.values()] == [Start, Start, Refuse]


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(-2, 2), st.integers(0, 4), st.sampled_from(["1", "2", "3"])),
        max_size=30,
    ),
    st.integers(1, 6),
    st.integers(0, 4),
)
def test_every_flight_gets_one_decision_and_no_rail_is_crossed(
    wanted: list[tuple[str, int, int, str]], slots: int, busy: int
) -> None:
    of = factory(
        agent("a", max_concurrent=2),
        agent("b", access=Access.READ_WRITE, work_dir="/t"),
        agent("c", access=Access.READ_WRITE, work_dir="/t"),
        max_concurrent_runs=slots,
    )
    queue = [
        flight(f"{n}", to=to, priority=priority, created_at=float(age), itinerary=f"itn_{chain}")
        for n, (to, priority, age, chain) in enumerate(wanted)
    ]
    alive = [seat() for _ in range(busy)]
    decisions = judge(queue, of, alive)
    assert decisions.keys() == {one.id for one in queue}
    started = [one for one in queue if decisions[one.id] == Start()]
    assert len(started) <= max(0, slots - busy)
    assert sum(one.receiver == "a" for one in started) <= 2
    assert sum(one.receiver in "bc" for one in started) <= 1
    # Something waits only when what it needs is taken: with a slot free, some rail of its own is full.
    if len(started) + busy < slots:
        for one in queue:
            if isinstance(decisions[one.id], Wait):
                full = {"a": sum(s.receiver == "a" for s in started) == 2}.get(
                    one.receiver, any(s.receiver in "bc" for s in started)
                )
                assert full


def test_a_seat_of_a_reader_takes_no_tree() -> None:
    assert seat_of(agent("a"), "itn_1").tree is None
    assert seat_of(agent("a", access=Access.READ_WRITE), "itn_1").tree == "/tree/a"


RESIDENT = Runner(name="mine", kind="command", command=("p",), protocol="jsonl")


def with_resident(**settings: object) -> Factory:
    made = factory(agent("a", runner="mine", resident=True), agent("b"), **settings)
    return replace(made, runners={**made.runners, "mine": RESIDENT})


def test_a_resident_takes_a_turn_when_its_process_does_and_one_at_a_time() -> None:
    of = with_resident()
    flights = [flight("1", created_at=1.0), flight("2", created_at=2.0)]
    ready = judge(flights, of, rails=Rails(now=10.0, residents={"a": None}))
    assert isinstance(ready["flt_1"], Start)
    assert "one at a time" in words(ready["flt_2"])
    assert "is being started" in words(
        judge(flights, of, rails=Rails(now=10.0, residents={"a": "is being started"}))["flt_1"]
    )
    assert "no process yet" in words(judge(flights, of)["flt_1"])


def test_a_slot_is_kept_for_each_resident_and_its_turn_takes_no_other() -> None:
    of = with_resident(max_concurrent_runs=2)
    rails = Rails(now=10.0, residents={"a": None})
    taken = [seat(agent="b", runner="cmd:true")]
    both = judge([flight("1"), flight("2", to="b")], of, alive=taken, rails=rails)
    assert isinstance(both["flt_1"], Start)
    assert "1 of them kept for residents" in words(both["flt_2"])
    busy = [seat(agent="a", is_turn=True)]
    assert isinstance(judge([flight("2", to="b")], of, alive=busy, rails=rails)["flt_2"], Start)
    leaving = Rails(now=10.0, residents={"a": None, "gone": "is being ended"})
    assert "2 of them kept" in words(judge([flight("2", to="b")], of, rails=leaving)["flt_2"])


def test_a_paused_agent_waits_for_the_one_who_paused_it() -> None:
    decision = judge([flight("1")], ALONE, rails=Rails(now=10.0, paused={"a": "ada"}))["flt_1"]
    assert words(decision) == "agent a was paused by ada; `tower agents resume a` goes on"


def words(decision: Decision) -> str:
    assert isinstance(decision, Wait)
    return decision.words
