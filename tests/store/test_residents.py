"""What the store knows of residents: one open process each, its token, its exits, and what was said of an agent."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from tower.core.records import RESIDENT_PROCESS, Itinerary, Process, Run, Standing
from tower.core.states import Cause, Outcome, RunState
from tower.store import itineraries, residents, runs
from tower.store.database import Connection, Store


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[Connection]:
    store = Store(tmp_path / "tower.db", inline=True)
    yield store._writer
    anyio.run(store.close)


def process(connection: Connection, tail: str, **changes: object) -> None:
    known = Process(id=f"prc_{tail}", agent="a", folder="/f", created_at=1.0, kind=RESIDENT_PROCESS)
    runs.insert_process(connection, known)
    if changes:
        runs.update_process(connection, known.id, **changes)


def turn(connection: Connection, tail: str, number: int, **changes: object) -> None:
    known = Run(
        id=f"run_{tail}",
        agent="a",
        runner="mine",
        generation=1,
        itinerary="itn_1",
        process="prc_1",
        state=RunState.STARTING,
        attempt=1,
        cause=Cause.DISPATCH,
        number=number,
        queued_at=1.0,
        claimed_at=1.0,
        turn=number,
    )
    runs.insert(connection, known)
    if changes:
        runs.update(connection, known.id, **changes)


def test_there_is_never_a_second_open_process(connection: Connection) -> None:
    process(connection, "1")
    with pytest.raises(sqlite3.IntegrityError):
        process(connection, "2")
    runs.update_process(connection, "prc_1", ended_at=2.0)
    process(connection, "2")
    assert [one.id for one in residents.open_processes(connection)] == ["prc_2"]


def test_a_token_stands_for_the_turn_under_way_alone(connection: Connection) -> None:
    itineraries.insert(connection, Itinerary(id="itn_1", created_at=1.0, max_hops=8, max_runs=9, fuel_limit=1))
    process(connection, "1", token_sha256="hash")
    assert runs.by_token(connection, "hash") is None
    turn(connection, "1", 1)
    assert runs.by_token(connection, "hash") is None
    runs.update(connection, "run_1", state=RunState.RUNNING)
    found = runs.by_token(connection, "hash")
    assert found is not None
    assert found.id == "run_1"
    runs.update(connection, "run_1", state=RunState.ENDED, outcome=Outcome.SUCCEEDED)
    assert runs.by_token(connection, "hash") is None
    known = residents.by_token(connection, "hash")
    assert known is not None
    assert known.id == "prc_1"
    runs.update_process(connection, "prc_1", ended_at=2.0)
    assert residents.by_token(connection, "hash") is None


def test_the_last_turns_are_those_that_were_told(connection: Connection) -> None:
    itineraries.insert(connection, Itinerary(id="itn_1", created_at=1.0, max_hops=8, max_runs=9, fuel_limit=1))
    process(connection, "1")
    for number in range(1, 6):
        turn(connection, str(number), number, state=RunState.ENDED, outcome=Outcome.SUCCEEDED)
    runs.update(connection, "run_5", outcome=Outcome.REFUSED)
    assert [run.id for run in residents.last_turns(connection, "a", limit=3)] == ["run_2", "run_3", "run_4"]


def test_exits_and_the_latest_process(connection: Connection) -> None:
    process(connection, "1", ended_at=5.0, exited=True, turns=2, session="s")
    process(connection, "2", ended_at=7.0, exited=False)
    process(connection, "3", ended_at=9.0, exited=True)
    assert residents.exits(connection, "a", 0.0) == [5.0, 9.0]
    assert residents.exits(connection, "a", 5.0) == [9.0]
    latest = residents.latest_process(connection, "a")
    assert latest is not None
    assert (latest.id, latest.session, latest.exited) == ("prc_1", "s", True)


def test_what_is_said_of_an_agent_is_kept(connection: Connection) -> None:
    assert residents.standing(connection, "a") == Standing(agent="a")
    residents.say(connection, "a", paused_at=3.0, paused_by="ada")
    residents.say(connection, "a", quarantined_at=4.0, quarantine="it fell over")
    residents.say(connection, "b", cleared_at=5.0)
    assert [one.agent for one in residents.standings(connection)] == ["a", "b"]
    said = residents.standing(connection, "a")
    assert (said.paused_by, said.quarantine) == ("ada", "it fell over")
    with pytest.raises(ValueError, match="nonsense"):
        residents.say(connection, "a", nonsense=1)
