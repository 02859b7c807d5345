"""Itineraries (chains) and their budgets. Their state is never stored: `state_of` derives it from facts."""

from __future__ import annotations

import json
import sqlite3

from tower.core.chain import ChainFacts
from tower.core.choices import as_document, from_document
from tower.core.records import Itinerary
from tower.core.states import FlightState, HeldReason, Outcome
from tower.store.accounts import waits_for_help
from tower.store.database import Connection, row, rows


def insert(connection: Connection, itinerary: Itinerary) -> None:
    """Write a new chain."""
    connection.execute(
        "INSERT INTO itineraries (id, created_at, name, pipeline, flags, choices, max_hops, max_runs, fuel_limit,"
        " spawn_generation, parent, narrowing) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            itinerary.id,
            itinerary.created_at,
            itinerary.name,
            itinerary.pipeline,
            json.dumps(dict(itinerary.flags)),
            json.dumps(as_document(itinerary.choices)),
            itinerary.max_hops,
            itinerary.max_runs,
            itinerary.fuel_limit,
            itinerary.spawn_generation,
            itinerary.parent,
            None if itinerary.narrowing is None else json.dumps(itinerary.narrowing),
        ),
    )


def get(connection: Connection, identity: str) -> Itinerary | None:
    """One chain by its whole id."""
    found = row(connection, "SELECT * FROM itineraries WHERE id = ?", (identity,))
    return _itinerary(found) if found else None


def newest(connection: Connection, *, limit: int) -> list[Itinerary]:
    """The chains that began last, newest first."""
    return [
        _itinerary(found) for found in rows(connection, "SELECT * FROM itineraries ORDER BY id DESC LIMIT ?", (limit,))
    ]


def count_run(connection: Connection, identity: str) -> None:
    """One more run was claimed for this chain."""
    connection.execute("UPDATE itineraries SET runs_started = runs_started + 1 WHERE id = ?", (identity,))


def uncount_run(connection: Connection, identity: str) -> None:
    """A claimed run turned out never to have started."""
    connection.execute("UPDATE itineraries SET runs_started = runs_started - 1 WHERE id = ?", (identity,))


def cancel(connection: Connection, identity: str, at: float) -> None:
    """Mark a chain as cancelled by a person; its flights are the caller's to end."""
    connection.execute("UPDATE itineraries SET cancelled_at = coalesce(cancelled_at, ?) WHERE id = ?", (at, identity))


def facts(connection: Connection, identity: str) -> ChainFacts:
    """What the state of a chain is derived from."""
    states = rows(
        connection,
        "SELECT state, held_reason, outcome, count(*) AS n FROM flights WHERE itinerary = ? GROUP BY 1, 2, 3",
        (identity,),
    )
    cancelled = row(connection, "SELECT cancelled_at FROM itineraries WHERE id = ?", (identity,))
    return ChainFacts(
        cancelled=bool(cancelled and cancelled[0]),
        wants_help=waits_for_help(connection, identity),
        flights={FlightState(found["state"]) for found in states},
        holds={HeldReason(found["held_reason"]) for found in states if found["state"] == FlightState.HELD},
        outcomes={Outcome(found["outcome"]) for found in states if found["outcome"]},
    )


def costs(connection: Connection, identity: str) -> list[tuple[int | None, str | None]]:
    """Cost (micro-dollars or None) and source of each ended run of a chain; one that never started cost nothing."""
    sql = "SELECT cost, cost_source FROM runs WHERE itinerary = ? AND state = 'ended' AND cost_source IS NOT NULL"
    found = rows(connection, sql, (identity,))
    return [(one["cost"], one["cost_source"]) for one in found]


def _itinerary(found: sqlite3.Row) -> Itinerary:
    narrowing = found["narrowing"]
    return Itinerary(
        id=found["id"],
        created_at=found["created_at"],
        name=found["name"],
        pipeline=found["pipeline"],
        flags=json.loads(found["flags"]),
        choices=from_document(json.loads(found["choices"])),
        max_hops=found["max_hops"],
        max_runs=found["max_runs"],
        fuel_limit=found["fuel_limit"],
        fuel_spent=found["fuel_spent"],
        fuel_reserved=found["fuel_reserved"],
        runs_started=found["runs_started"],
        spawn_generation=found["spawn_generation"],
        parent=found["parent"],
        narrowing=None if narrowing is None else tuple(json.loads(narrowing)),
        cancelled_at=found["cancelled_at"],
        overshot_at=found["overshot_at"],
    )
