"""Joins in the database: how far each barrier has come, what is parked there, and where a chain is alive.

The rules are `core.joins`'; here are the facts that they are asked with.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass

from tower.core.reach import Place
from tower.core.records import Wave
from tower.core.states import FlightState, Outcome
from tower.store.database import Connection, row, rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Parked:
    """A flight that waits at a barrier, or was given up with it."""

    flight: str
    sender: str
    receiver: str
    hops: int
    is_stranded: bool
    woken_by: tuple[tuple[str, FlightState, Outcome | None], ...]
    """Id, state and outcome of the flights that woke the run which sent it."""


def of_itinerary(connection: Connection, itinerary: str) -> list[Wave]:
    """The barriers of a chain to which anything was delivered."""
    found = rows(connection, "SELECT * FROM waves WHERE itinerary = ? ORDER BY receiver", (itinerary,))
    return [_wave(one) for one in found]


def has_any(connection: Connection, itinerary: str) -> bool:
    """Whether anything was ever delivered to a join of this chain."""
    return row(connection, "SELECT 1 FROM waves WHERE itinerary = ? LIMIT 1", (itinerary,)) is not None


def save(connection: Connection, wave: Wave) -> None:
    """Write how far a barrier has come."""
    connection.execute(
        "INSERT OR REPLACE INTO waves (itinerary, receiver, number, answered, since, given_up, woke_with, due_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            wave.itinerary,
            wave.receiver,
            wave.number,
            json.dumps(sorted(wave.answered)),
            wave.since,
            wave.is_given_up,
            wave.woke_with,
            wave.due_at,
        ),
    )


def waiting_chains(connection: Connection, *, due_by: float | None = None) -> list[str]:
    """Chains in which a barrier waits for deliveries; with `due_by`, those that wait no longer than until then."""
    sql = (
        "SELECT DISTINCT itinerary FROM waves INDEXED BY waves_open WHERE since IS NOT NULL AND given_up = 0"
        " AND (? IS NULL OR due_at <= ?) ORDER BY itinerary"
    )
    return [found[0] for found in rows(connection, sql, (due_by, due_by))]


def given_up(connection: Connection, *, limit: int = 100) -> list[Wave]:
    """Barriers that were given up with what they hold, those of the newest chains first."""
    sql = "SELECT * FROM waves INDEXED BY waves_given_up WHERE given_up = 1 ORDER BY itinerary DESC, receiver LIMIT ?"
    return [_wave(found) for found in rows(connection, sql, (limit,))]


def parked(connection: Connection, itinerary: str) -> list[Parked]:
    """What waits at the barriers of a chain, or was given up with them, in the order in which it was sent."""
    sql = (
        "SELECT id, sender_name, sender_ref, receiver, hops_remaining, state FROM flights"
        " WHERE itinerary = ? AND state IN ('parked', 'stranded') ORDER BY created_at, id"
    )
    return [
        Parked(
            flight=found["id"],
            sender=found["sender_name"],
            receiver=found["receiver"],
            hops=found["hops_remaining"],
            is_stranded=found["state"] == FlightState.STRANDED,
            woken_by=_woken_by(connection, found["sender_ref"]),
        )
        for found in rows(connection, sql, (itinerary,))
    ]


def places(connection: Connection, itinerary: str) -> tuple[Place, ...]:
    """Where a chain is alive or may come back to life, those that a join released together as one."""
    sql = (
        "SELECT receiver, min(hops_remaining) FROM flights WHERE itinerary = ?"
        " AND state IN ('queued', 'held', 'starting', 'running', 'halted') GROUP BY receiver, coalesce(joined, id)"
    )
    return tuple(Place(agent=found[0], hops=found[1]) for found in rows(connection, sql, (itinerary,)))


def follows_from(connection: Connection, run: str, flight: str) -> bool:
    """Whether a run goes back to a flight, through the flights that woke it and the runs which sent those."""
    sql = (
        "WITH RECURSIVE back (flight) AS ("
        " SELECT flight FROM run_flights WHERE run = ?"
        " UNION SELECT woke.flight FROM back JOIN flights ON flights.id = back.flight"
        " JOIN run_flights AS woke ON woke.run = flights.sender_ref"
        ") SELECT 1 FROM back WHERE flight = ?"
    )
    return row(connection, sql, (run, flight)) is not None


def join_together(connection: Connection, flights: Iterable[str]) -> None:
    """From now on these are told to one run, in this order, and move together; the first stands in line for them."""
    together = tuple(flights)
    connection.executemany(
        "UPDATE flights SET joined = ?, place = ? WHERE id = ?",
        [(together[0], place, flight) for place, flight in enumerate(together)],
    )


def _woken_by(connection: Connection, run: str | None) -> tuple[tuple[str, FlightState, Outcome | None], ...]:
    sql = "SELECT id, state, outcome FROM run_flights JOIN flights ON id = flight WHERE run = ? ORDER BY position"
    return tuple(
        (found["id"], FlightState(found["state"]), Outcome(found["outcome"]) if found["outcome"] else None)
        for found in rows(connection, sql, (run,))
    )


def _wave(found: sqlite3.Row) -> Wave:
    return Wave(
        itinerary=found["itinerary"],
        receiver=found["receiver"],
        number=found["number"],
        answered=frozenset(json.loads(found["answered"])),
        since=found["since"],
        is_given_up=bool(found["given_up"]),
        woke_with=found["woke_with"],
        due_at=found["due_at"],
    )
