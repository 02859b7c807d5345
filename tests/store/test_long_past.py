"""What is asked often walks over what is open, and never over all that there ever was."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import pytest

from tower.core.records import Sender
from tower.core.states import FlightState, HeldReason
from tower.store import events, flights, itineraries, ledger, lookup, queue, residents, runs, waves
from tower.store.database import Connection, Store

ULID = "01ARZ3NDEKTSV4RRFFQ69G5FAV"

ASKED: dict[str, Callable[[Connection], object]] = {
    "the queue": lambda it: queue.heads(it, most=5, busy=1, now=1.0),
    "what waits": lambda it: queue.waiting(it, limit=10),
    "what is held": lambda it: flights.held(it, HeldReason.QUOTA),
    "the first that are held": lambda it: ledger.first_held(it, HeldReason.RESERVE, 10),
    "what is held for fuel": lambda it: ledger.held_for_fuel(it, "itn_1"),
    "what may be released": lambda it: flights.may_be_released(it, 1.0),
    "what runs of an agent cost": lambda it: ledger.history(it, "a"),
    "the window of the Reserve": lambda it: ledger.window(it, now=9.0, seconds=5.0),
    "what leaves it": lambda it: ledger.leaves(it, now=9.0, seconds=5.0),
    "counts": flights.counts,
    "what waits for an agent": lambda it: flights.pending_for(it, "a"),
    "what falls due": lambda it: queue.next_due(it, 1.0),
    "flights that a ground stop ended": lambda it: flights.listing(it, state=FlightState.HALTED, limit=10),
    "flights of a chain": lambda it: flights.of_itinerary(it, "itn_1"),
    "flights that a run sent": lambda it: flights.sent_by(it, "run_1"),
    "flights of a key": lambda it: flights.by_key(
        it, key="k", receiver="a", sender=Sender(kind="person", name="ann"), itinerary=None, since=0.0
    ),
    "a move": lambda it: flights.move(it, "flt_1", FlightState.HELD),
    "runs alive": lambda it: runs.listing(it, every=False, limit=10),
    "runs alive of an agent": lambda it: runs.listing(it, every=False, agent="a", limit=10),
    "open runs": runs.open_runs,
    "runs of an agent": lambda it: runs.listing(it, every=True, agent="a", limit=10),
    "runs of a chain": lambda it: runs.of_itinerary(it, "itn_1"),
    "runs of a flight": lambda it: runs.of_flight(it, "flt_1"),
    "the run of a token": lambda it: runs.by_token(it, "ab"),
    "the last turns of a resident": lambda it: residents.last_turns(it, "a", limit=3),
    "a chain by its id": lambda it: lookup.find(it, f"itn_{ULID}", kind="itinerary"),
    "the facts of a chain": lambda it: itineraries.facts(it, "itn_1"),
    "the newest event of a chain": lambda it: events.last_seq(it, itinerary="itn_1"),
    "chains with a barrier that waits": waves.waiting_chains,
    "joins that were given up": waves.given_up,
    "what is parked": lambda it: waves.parked(it, "itn_1"),
    "where a chain is alive": lambda it: waves.places(it, "itn_1"),
    "what follows from what": lambda it: waves.follows_from(it, "run_1", "flt_1"),
}

GROWING = ("flights", "runs", "itineraries", "events", "run_flights", "waves")
OF_WHAT_IS_OPEN = ("flights_held", "flights_delayed", "flights_open", "runs_open", "waves_open", "waves_given_up")


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[Connection]:
    store = Store(tmp_path / "t.db", inline=True)
    store._writer.execute(
        "INSERT INTO itineraries (id, created_at, max_hops, max_runs, fuel_limit) VALUES (?, 1.0, 8, 64, 5)",
        (f"itn_{ULID}",),
    )
    yield store._writer
    anyio.run(store.close)


@pytest.mark.parametrize("name", ASKED)
def test_no_question_walks_over_the_past(connection: Connection, name: str) -> None:
    statements: list[str] = []
    connection.set_trace_callback(statements.append)
    ASKED[name](connection)
    connection.set_trace_callback(None)
    assert statements
    for statement in statements:
        for step in connection.execute(f"EXPLAIN QUERY PLAN {statement}"):
            words = str(step["detail"]).split()
            walks = words[0] == "SCAN" and words[1] in GROWING
            assert not walks or words[-1] in OF_WHAT_IS_OPEN, f"{statement}: {step['detail']}"
