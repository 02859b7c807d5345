"""What is old enough to be forgotten, and what stays however old it is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from tower.core.records import RESIDENT_PROCESS, Event, Flight, Itinerary, Process, Run, Sender
from tower.core.states import Cause, FlightState, Outcome, RunState
from tower.store import events, flights, itineraries, retention, runs
from tower.store.database import Connection, Store, rows

OLD, CUT, NEW = 10.0, 100.0, 200.0


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[Connection]:
    store = Store(tmp_path / "t.db", inline=True)
    yield store._writer
    anyio.run(store.close)


def chain(
    connection: Connection,
    name: str,
    *,
    ended: float | None = OLD,
    state: FlightState = FlightState.LANDED,
    run: RunState | None = RunState.ENDED,
    parent: str | None = None,
) -> None:
    """A chain of one flight with one run by a process of its own."""
    itineraries.insert(
        connection,
        Itinerary(id=f"itn_{name}", created_at=OLD, max_hops=8, max_runs=64, fuel_limit=1, parent=parent),
    )
    flight = Flight(
        id=f"flt_{name}",
        itinerary=f"itn_{name}",
        sender=Sender(kind="person", name="ada"),
        receiver="a",
        body="go",
        created_at=OLD,
        hops_remaining=7,
        state=state,
        ended_at=ended,
    )
    flights.insert(connection, flight)
    if run is None:
        return
    runs.insert_process(connection, Process(id=f"prc_{name}", agent="a", folder="/f", created_at=OLD, ended_at=ended))
    made = Run(
        id=f"run_{name}",
        agent="a",
        runner="cmd:true",
        generation=1,
        itinerary=f"itn_{name}",
        process=f"prc_{name}",
        state=run,
        attempt=1,
        cause=Cause.DISPATCH,
        number=1,
        queued_at=OLD,
        claimed_at=OLD,
        ended_at=ended,
        outcome=Outcome.SUCCEEDED,
        flights=(flight.id,),
    )
    runs.insert(connection, made)


@pytest.mark.parametrize("state", [it for it in FlightState if it not in {FlightState.LANDED}])
def test_a_chain_stays_while_anything_of_it_is_open(connection: Connection, state: FlightState) -> None:
    open_states = {
        FlightState.QUEUED, FlightState.HELD, FlightState.PARKED, FlightState.HALTED, FlightState.STARTING,
        FlightState.RUNNING,
    }  # fmt: skip
    chain(connection, "1", state=state, run=None)
    assert bool(retention.chains(connection, CUT, limit=9)) == (state not in open_states)


def test_a_chain_is_as_old_as_what_ended_in_it_last(connection: Connection) -> None:
    chain(connection, "1")
    chain(connection, "2", ended=NEW)
    chain(connection, "3", ended=CUT)
    chain(connection, "4", state=FlightState.LANDED, run=RunState.RUNNING)
    chain(connection, "5", state=FlightState.CANCELLED, run=None)
    assert retention.chains(connection, CUT, limit=9) == ["itn_1", "itn_5"]
    assert retention.chains(connection, CUT, limit=1) == ["itn_1"]


def test_with_a_chain_goes_all_that_belongs_to_it_and_nothing_else(connection: Connection) -> None:
    chain(connection, "1")
    chain(connection, "2", ended=NEW, parent="itn_1")
    assert retention.runs_of(connection, ["itn_1"]) == [("a", "run_1")]
    assert retention.processes(connection, CUT, limit=9) == []
    retention.forget_chains(connection, ["itn_1"])
    for table in ("itineraries", "flights", "runs"):
        assert [one[0][-1] for one in rows(connection, f"SELECT id FROM {table}")] == ["2"]  # noqa: S608 (names of this test)
    assert [tuple(one) for one in rows(connection, "SELECT run, flight FROM run_flights")] == [("run_2", "flt_2")]
    kept = itineraries.get(connection, "itn_2")
    assert kept is not None
    assert kept.parent is None
    assert retention.processes(connection, CUT, limit=9) == [("a", "prc_1")]
    retention.forget_processes(connection, ["prc_1"])
    assert runs.process(connection, "prc_1") is None


def test_a_resident_s_process_stays_as_long_as_it_lives_or_a_turn_of_it_is_kept(connection: Connection) -> None:
    living = Process(id="prc_l", agent="a", folder="/f", created_at=OLD, kind=RESIDENT_PROCESS)
    runs.insert_process(connection, living)
    chain(connection, "1")
    chain(connection, "2", ended=NEW)
    for name in ("1", "2"):
        runs.update_process(connection, f"prc_{name}", ended_at=OLD)
    retention.forget_chains(connection, ["itn_1"])
    assert retention.processes(connection, CUT, limit=9) == [("a", "prc_1")]


def test_events_go_with_their_time_but_for_those_of_chains_that_are_kept(connection: Connection) -> None:
    chain(connection, "2")
    for at, itinerary in ((OLD, None), (OLD, "itn_1"), (OLD, "itn_2"), (NEW, None), (NEW, "itn_1")):
        events.append(connection, Event(at=at, type="it", itinerary=itinerary))
    assert retention.forget_events(connection, CUT, limit=1) == 1
    assert retention.forget_events(connection, CUT, limit=9) == 1
    assert retention.forget_events(connection, CUT, limit=9) == 0
    assert [(one.at, one.itinerary) for one in events.after(connection, 0)] == [
        (OLD, "itn_2"), (NEW, None), (NEW, "itn_1"),
    ]  # fmt: skip


def test_every_reference_says_what_becomes_of_it(connection: Connection) -> None:
    """Otherwise a table that is added later would keep everything from being forgotten."""
    tables = [one[0] for one in rows(connection, "SELECT name FROM sqlite_schema WHERE type = 'table'")]
    silent = {
        (table, found["from"])
        for table in tables
        for found in rows(connection, f"PRAGMA foreign_key_list({table})")
        if found["on_delete"] == "NO ACTION"
    }
    assert silent == {("runs", "process")}  # a process goes after its runs


def test_a_chain_that_waits_for_an_answer_stays(connection: Connection) -> None:
    for name, fatal, resolved in (("1", 1, None), ("2", 1, NEW), ("3", 0, None)):
        chain(connection, name)
        connection.execute(
            "INSERT INTO help_requests (id, run, itinerary, agent, at, blocker, summary, detail, fatal, resolved_at)"
            " VALUES (?, ?, ?, 'a', ?, 'other', 's', '', ?, ?)",
            (f"help_{name}", f"run_{name}", f"itn_{name}", OLD, fatal, resolved),
        )
    assert retention.chains(connection, CUT, limit=9) == ["itn_2", "itn_3"]
