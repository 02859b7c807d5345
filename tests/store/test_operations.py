"""Operations over a connection: flights move only along the table, keys belong to their sender, ids have tails."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tower.core.chain import ChainState, state_of
from tower.core.errors import InvalidError, NotFoundError
from tower.core.records import Event, Flight, Itinerary, Process, Run, Sender
from tower.core.states import Cause, FlightState, HeldReason, Outcome, RunState
from tower.store import events, flights, generations, itineraries, lookup, queue, runs
from tower.store.database import Connection, Store
from tower.store.migrations import migrate

ULID = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
ADA = Sender(kind="person", name="ada")


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[Connection]:
    store = Store(tmp_path / "t.db", inline=True)
    yield store._writer
    anyio.run(store.close)


def chain(connection: Connection, identity: str = "itn_1") -> Itinerary:
    itinerary = Itinerary(id=identity, created_at=1.0, max_hops=8, max_runs=64, fuel_limit=5_000_000, name="night")
    itineraries.insert(connection, itinerary)
    return itinerary


def flight(connection: Connection, identity: str, **changes: object) -> Flight:
    plain = Flight(id=identity, itinerary="itn_1", sender=ADA, receiver="a", body="go", created_at=1.0)
    made = replace(plain, **changes)  # type: ignore[arg-type]
    flights.insert(connection, made)
    return made


def run(connection: Connection, identity: str, *told: str, **changes: object) -> Run:
    tail = identity.removeprefix("run_")
    runs.insert_process(connection, Process(id=f"prc_{tail}", agent="a", folder="/f", created_at=1.0))
    plain = Run(
        id=identity,
        agent="a",
        runner="cmd:true",
        generation=1,
        itinerary="itn_1",
        process=f"prc_{tail}",
        state=RunState.STARTING,
        attempt=1,
        cause=Cause.DISPATCH,
        number=runs.next_number(connection, "a"),
        queued_at=1.0,
        claimed_at=2.0,
        flights=told,
    )
    made = replace(plain, **changes)  # type: ignore[arg-type]
    runs.insert(connection, made)
    return made


def test_records_come_back_as_they_were_written(connection: Connection) -> None:
    itinerary = chain(connection)
    sent = flight(connection, "flt_1", key="k", not_before=5.0, priority=3, hops_remaining=7)
    started = run(connection, "run_1", "flt_1", follows_run="run_0", token_sha256="t", notes=("so",))
    assert itineraries.get(connection, "itn_1") == itinerary
    assert flights.get(connection, "flt_1") == sent
    assert runs.get(connection, "run_1") == started
    assert flights.of_run(connection, "run_1") == [sent]
    assert runs.of_flight(connection, "flt_1") == [started]
    assert flights.get(connection, "flt_none") is None


@pytest.mark.parametrize("before", FlightState)
@pytest.mark.parametrize("after", FlightState)
def test_a_flight_moves_only_along_the_table(connection: Connection, before: FlightState, after: FlightState) -> None:
    from tower.core.states import MOVES

    chain(connection)
    flight(connection, "flt_1", state=before)
    assert flights.move(connection, "flt_1", after) is (after in MOVES[before])
    now = flights.get(connection, "flt_1")
    assert now is not None
    assert now.state is (after if after in MOVES[before] else before)


def test_leaving_a_hold_clears_it(connection: Connection) -> None:
    chain(connection)
    flight(connection, "flt_1")
    flights.move(connection, "flt_1", FlightState.HELD, held_reason=HeldReason.QUOTA, reason="wall", release_at=9.0)
    assert [one.id for one in flights.held(connection, HeldReason.QUOTA)] == ["flt_1"]
    assert flights.held(connection, HeldReason.DISK) == []
    flights.move(connection, "flt_1", FlightState.QUEUED)
    now = flights.get(connection, "flt_1")
    assert now is not None
    assert (now.held_reason, now.reason, now.release_at) == (None, None, None)


def test_a_move_sets_only_known_columns(connection: Connection) -> None:
    with pytest.raises(ValueError, match="body"):
        flights.move(connection, "flt_1", FlightState.HELD, body="x")


def test_the_queue_is_read_per_agent_in_its_order_however_long_it_is(connection: Connection) -> None:
    chain(connection)
    for number in range(30):
        flight(connection, f"flt_a{number:02}", created_at=float(number))
    flight(connection, "flt_b", receiver="b", created_at=99.0)
    flight(connection, "flt_c", receiver="c", state=FlightState.LANDED)
    flight(connection, "flt_urgent", created_at=50.0, priority=1)
    flight(connection, "flt_due", receiver="b", created_at=98.0, not_before=100.0)
    flight(connection, "flt_later", created_at=0.0, priority=9, not_before=100.5)
    heads = [one.id for one in queue.heads(connection, most=3, busy=0, now=100.0)]
    assert heads == ["flt_urgent", "flt_a00", "flt_a01", "flt_b", "flt_due"]
    flights.move(connection, "flt_urgent", FlightState.STARTING)
    flights.move(connection, "flt_a00", FlightState.HELD)
    assert [one.id for one in queue.heads(connection, most=1, busy=0, now=0.0)] == ["flt_a01", "flt_b"]
    flights.move(connection, "flt_a00", FlightState.QUEUED)
    assert [one.id for one in queue.heads(connection, most=1, busy=0, now=0.0)] == ["flt_a00", "flt_b"]


def test_a_chain_with_a_thousand_flights_hides_no_other(connection: Connection) -> None:
    for number in range(4):
        chain(connection, f"itn_{number}")
        for at in range(100 if number < 3 else 1):
            flight(connection, f"flt_{number}{at:03}", itinerary=f"itn_{number}", created_at=float(number * 1000 + at))
    # Three chains may be at work, and so the first of the fourth is among those to choose from.
    heads = [one.id for one in queue.heads(connection, most=1, busy=3, now=0.0)]
    assert heads == ["flt_0000", "flt_1000", "flt_2000", "flt_3000"]


@given(data=st.data())
def test_each_line_has_its_first_flight_whatever_moves(data: st.DataObject) -> None:
    connection = sqlite3.connect(":memory:", factory=Connection, isolation_level=None)
    connection.row_factory = sqlite3.Row
    migrate(connection, Path("/nowhere"))
    for name in ("itn_1", "itn_2"):
        chain(connection, name)
    states: dict[str, tuple[tuple[str, str, int], float, bool]] = {}
    for number in range(data.draw(st.integers(1, 12))):
        identity = f"flt_{number:02}"
        line = (data.draw(st.sampled_from("ab")), data.draw(st.sampled_from(["itn_1", "itn_2"])), number % 2)
        at, delayed = float(data.draw(st.integers(0, 3))), data.draw(st.booleans())
        flight(
            connection,
            identity,
            receiver=line[0],
            itinerary=line[1],
            priority=line[2],
            created_at=at,
            not_before=9.0 if delayed else None,
        )
        states[identity] = (line, at, not delayed)
        moved = data.draw(st.sampled_from(sorted(states)))
        line, at, is_in = states[moved]
        if data.draw(st.booleans()):
            flights.move(connection, moved, FlightState.HELD)
            states[moved] = (line, at, False)
        elif flights.move(connection, moved, FlightState.QUEUED, not_before=None):
            states[moved] = (line, at, True)
    expected: dict[tuple[str, str, int], tuple[float, str]] = {}
    for identity, (line, at, is_in) in states.items():
        if is_in:
            expected[line] = min(expected.get(line, (at, identity)), (at, identity))
    found = connection.execute("SELECT receiver, itinerary, priority, created_at, first FROM lines").fetchall()
    assert {(one[0], one[1], one[2]): (one[3], one[4]) for one in found} == expected


def test_a_key_belongs_to_its_sender_and_lapses(connection: Connection) -> None:
    chain(connection)
    chain(connection, "itn_2")
    flight(connection, "flt_1", key="k", created_at=100.0)
    flight(connection, "flt_2", key="k", created_at=100.0, sender=Sender(kind="agent", name="x", ref="run_1"))

    def ask(sender: Sender, itinerary: str | None = None, receiver: str = "a", since: float = 0.0) -> str | None:
        found = flights.by_key(connection, key="k", receiver=receiver, sender=sender, itinerary=itinerary, since=since)
        return found.id if found else None

    assert ask(ADA) == "flt_1"
    assert ask(Sender(kind="person", name="bob")) is None
    assert ask(ADA, receiver="b") is None
    assert ask(ADA, since=100.0) is None
    assert ask(Sender(kind="agent", name="x", ref="run_9"), "itn_1") == "flt_2"
    assert ask(Sender(kind="agent", name="x", ref="run_9"), "itn_2") is None


def test_runs_are_numbered_per_agent_and_open_until_they_end(connection: Connection) -> None:
    chain(connection)
    first = run(connection, "run_1")
    second = run(connection, "run_2", token_sha256="hash")
    assert (first.number, second.number) == (1, 2)
    assert [one.id for one in runs.open_runs(connection)] == ["run_1", "run_2"]
    assert runs.by_token(connection, "hash") == second
    runs.update(connection, "run_2", state=RunState.ENDED, outcome=Outcome.SUCCEEDED)
    assert runs.by_token(connection, "hash") is None
    assert [one.id for one in runs.listing(connection, every=False, limit=9)] == ["run_1"]
    assert [one.id for one in runs.listing(connection, every=True, limit=9)] == ["run_2", "run_1"]
    assert runs.listing(connection, every=True, agent="b", limit=9) == []
    with pytest.raises(ValueError, match="nonsense"):
        runs.update(connection, "run_1", nonsense=1)


def test_notes_are_said_once(connection: Connection) -> None:
    chain(connection)
    run(connection, "run_1", notes=("one",))
    runs.add_notes(connection, "run_1", ["two", "one", "two"])
    now = runs.get(connection, "run_1")
    assert now is not None
    assert now.notes == ("one", "two")


def test_budgets_add_up(connection: Connection) -> None:
    chain(connection)
    itineraries.count_run(connection, "itn_1")
    itineraries.count_run(connection, "itn_1")
    itineraries.uncount_run(connection, "itn_1")
    now = itineraries.get(connection, "itn_1")
    assert now is not None
    assert now.runs_started == 1


def test_the_state_of_a_chain_is_derived(connection: Connection) -> None:
    chain(connection)
    flight(connection, "flt_1")
    assert state_of(itineraries.facts(connection, "itn_1")) is ChainState.WORKING
    flights.move(connection, "flt_1", FlightState.CANCELLED)
    assert state_of(itineraries.facts(connection, "itn_1")) is ChainState.CANCELLED


def test_a_tail_finds_what_it_names(connection: Connection) -> None:
    chain(connection, f"itn_{ULID}")
    flight(connection, f"flt_{ULID[:-1]}A", itinerary=f"itn_{ULID}")
    assert lookup.find(connection, f"itn_{ULID}") == ("itinerary", f"itn_{ULID}")
    assert lookup.find(connection, "5fav") == ("itinerary", f"itn_{ULID}")
    assert lookup.find(connection, "FAA", kind="flight") == ("flight", f"flt_{ULID[:-1]}A")
    with pytest.raises(NotFoundError) as caught:
        lookup.find(connection, "ZZZZ")
    assert caught.value.code == "unknown-id"
    with pytest.raises(NotFoundError):
        lookup.find(connection, "5FAV", kind="run")
    for text in ("", "../x", "%", "flt_", "foo_5FAV", "ünï", "_"):
        with pytest.raises(InvalidError):
            lookup.find(connection, text)


def test_an_ambiguous_tail_is_refused_with_the_candidates(connection: Connection) -> None:
    chain(connection, f"itn_{ULID}")
    flight(connection, f"flt_{ULID}", itinerary=f"itn_{ULID}")
    with pytest.raises(NotFoundError) as caught:
        lookup.find(connection, "5FAV")
    assert caught.value.code == "ambiguous-id"
    assert f"flt_{ULID}" in caught.value.sentence
    assert f"itn_{ULID}" in caught.value.sentence


def test_events_are_numbered_and_read_in_order(connection: Connection) -> None:
    first = events.append(connection, Event(type="a", at=1.0, itinerary="itn_1", data={"x": 1}))
    second = events.append(connection, Event(type="b", at=2.0))
    assert (first.seq, second.seq) == (1, 2)
    assert events.after(connection, 0) == [first, second]
    assert events.after(connection, 1) == [second]
    assert events.of_itinerary(connection, "itn_1") == [first]
    assert events.last_seq(connection) == 2
    assert events.last_seq(connection, itinerary="itn_1") == 1
    assert events.last_seq(connection, itinerary="itn_2") == 0


def test_a_generation_has_a_new_number_only_when_something_changed(connection: Connection) -> None:
    numbers = [generations.record(connection, digest=digest, path="/f", at=1.0) for digest in "aabba"]
    assert numbers == [1, 1, 2, 2, 3]
