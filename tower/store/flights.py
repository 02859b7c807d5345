"""Flights (messages): writing them, moving them along the table of legal moves, and reading the queue."""

from __future__ import annotations

import sqlite3
from typing import Any, Final

from tower.core.records import Flight, Sender
from tower.core.states import ALIVE, MOVES, WAITING, Cause, FlightState, HeldReason, Outcome
from tower.store.database import Connection, row, rows

KEY_WINDOW_SEC: Final = 24 * 3600.0
"""How long a key answers with its first flight."""

_COLUMNS: Final = frozenset(
    {
        "held_reason",
        "reason",
        "release_at",
        "not_before",
        "attempt",
        "cause",
        "follows_run",
        "note",
        "outcome",
        "ended_at",
        "approved_at",
        "approved_by",
        "approval_note",
    }
)

FIRST: Final = "(joined IS NULL OR joined = id)"
"""Of those that a join released together, the first stands in line for all."""

IN_LINE: Final = f"state = 'queued' AND {FIRST}"
_OPEN_STATES: Final = WAITING | ALIVE | {FlightState.HALTED}

OPEN: Final = "state IN ('queued', 'held', 'parked', 'halted', 'starting', 'running')"
"""As partial indexes have it: a query says it beside its own condition, or it walks over all that there ever were."""


def insert(connection: Connection, flight: Flight) -> None:
    """Write a new flight."""
    connection.execute(
        "INSERT INTO flights (id, itinerary, sender_kind, sender_name, sender_ref, receiver, body, created_at, state,"
        " hops_remaining, priority, key, not_before, held_reason, reason, release_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            flight.id,
            flight.itinerary,
            flight.sender.kind,
            flight.sender.name,
            flight.sender.ref,
            flight.receiver,
            flight.body,
            flight.created_at,
            flight.state,
            flight.hops_remaining,
            flight.priority,
            flight.key,
            flight.not_before,
            flight.held_reason,
            flight.reason,
            flight.release_at,
        ),
    )


def get(connection: Connection, identity: str) -> Flight | None:
    """One flight by its whole id."""
    found = row(connection, "SELECT * FROM flights WHERE id = ?", (identity,))
    return flight_of(found) if found else None


def move(connection: Connection, identity: str, after: FlightState, **changes: Any) -> bool:
    """Bring a flight into another state, if the table of moves allows it from where it stands now.

    Those that a join released together with it, and for which it stands in line, move with it.
    `changes` are further columns to set. Leaving `held` clears the hold. Returns whether it moved.
    """
    unknown = changes.keys() - _COLUMNS
    if unknown:
        raise ValueError(f"a move does not set {', '.join(sorted(unknown))}")
    if after is not FlightState.HELD:
        changes = {"held_reason": None, "reason": None, "release_at": None} | changes
    sources = [state for state, targets in MOVES.items() if after in targets]
    assignments = ", ".join(["state = ?", *(f"{column} = ?" for column in changes)])
    marks = ", ".join("?" * len(sources))
    cursor = connection.execute(
        f"UPDATE flights SET {assignments} WHERE (id = ? OR joined = ?) AND state IN ({marks})",  # noqa: S608 (column names are checked above)
        (after, *changes.values(), identity, identity, *sources),
    )
    return cursor.rowcount > 0


def delay(connection: Connection, identity: str, release_at: float | None) -> None:
    """Let a held flight be looked at again by itself at another moment."""
    connection.execute("UPDATE flights SET release_at = ? WHERE id = ? AND state = 'held'", (release_at, identity))


def held(connection: Connection, *reasons: HeldReason) -> list[Flight]:
    """Held flights, of the given reasons or of all; of those that a join released together, the first."""
    sql = f"SELECT * FROM flights WHERE state = 'held' AND {OPEN} AND {FIRST} ORDER BY id"  # noqa: S608 (constants)
    found = [flight_of(one) for one in rows(connection, sql)]
    return [flight for flight in found if not reasons or flight.held_reason in reasons]


def may_be_released(connection: Connection, now: float) -> list[Flight]:
    """Held flights whose time has come, or whose cause may go away without anybody saying so."""
    sql = (
        "SELECT * FROM flights INDEXED BY flights_held WHERE state = 'held'"
        " AND (held_reason IN ('disk', 'ground-stop', 'environment') OR release_at <= ?) ORDER BY id"
    )
    return [flight_of(found) for found in rows(connection, sql, (now,))]


def counts(connection: Connection) -> dict[str, int]:
    """How many flights are queued, held, parked, halted, starting and running."""
    sql = f"SELECT state, count(*) FROM flights WHERE {OPEN} GROUP BY state"  # noqa: S608 (a constant)
    return {found[0]: found[1] for found in rows(connection, sql)}


def pending_for(connection: Connection, receiver: str) -> int:
    """How many flights wait for an agent."""
    found = row(
        connection,
        f"SELECT count(*) FROM flights WHERE receiver = ? AND state IN ('queued', 'held') AND {OPEN}"  # noqa: S608
        f" AND {FIRST}",
        (receiver,),
    )
    return int(found[0]) if found else 0


def by_key(
    connection: Connection, *, key: str, receiver: str, sender: Sender, itinerary: str | None, since: float
) -> Flight | None:
    """The flight that a key already stands for.

    A key belongs to its sender: the chain for agents, the name for people; so that tonight's chain is never
    answered with last night's flight.
    """
    found = rows(
        connection,
        "SELECT * FROM flights WHERE key = ? AND receiver = ? AND created_at > ? ORDER BY created_at",
        (key, receiver, since),
    )
    for one in map(flight_of, found):
        same = (
            _chain_of_sender(connection, one) == itinerary if sender.kind == "agent" else one.sender.name == sender.name
        )
        if one.sender.kind == sender.kind and same:
            return one
    return None


def _chain_of_sender(connection: Connection, flight: Flight) -> str:
    """The chain that an agent sent it from, which is not its own where its route opens a new one."""
    found = rows(connection, "SELECT itinerary FROM runs WHERE id = ?", (flight.sender.ref,))
    return str(found[0]["itinerary"]) if found else flight.itinerary


def of_itinerary(connection: Connection, itinerary: str) -> list[Flight]:
    """All flights of a chain, oldest first."""
    sql = "SELECT * FROM flights WHERE itinerary = ? ORDER BY created_at, id"
    return [flight_of(found) for found in rows(connection, sql, (itinerary,))]


def sent_by(connection: Connection, run: str) -> list[Flight]:
    """The flights that a run sent, oldest first."""
    sql = "SELECT * FROM flights WHERE sender_ref = ? AND sender_kind = 'agent' ORDER BY created_at, id"
    return [flight_of(found) for found in rows(connection, sql, (run,))]


def together_with(connection: Connection, flight: Flight) -> list[Flight]:
    """A flight and those that a join released together with it, in their order."""
    if flight.joined is None:
        return [flight]
    found = rows(connection, "SELECT * FROM flights WHERE joined = ? ORDER BY place", (flight.joined,))
    return [flight_of(one) for one in found]


def of_run(connection: Connection, run: str) -> list[Flight]:
    """The flights that woke a run, in the order in which it was told of them."""
    sql = "SELECT flights.* FROM run_flights JOIN flights ON id = flight WHERE run = ? ORDER BY position"
    return [flight_of(found) for found in rows(connection, sql, (run,))]


def listing(
    connection: Connection, *, state: FlightState | None = None, receiver: str | None = None, limit: int
) -> list[Flight]:
    """Flights by state and receiver, newest first."""
    is_open = f" AND {OPEN}" if state in _OPEN_STATES else ""
    sql = (
        f"SELECT * FROM flights WHERE (? IS NULL OR state = ?) AND (? IS NULL OR receiver = ?){is_open}"  # noqa: S608
        " ORDER BY id DESC LIMIT ?"
    )
    return [flight_of(found) for found in rows(connection, sql, (state, state, receiver, receiver, limit))]


def flight_of(found: sqlite3.Row) -> Flight:
    """The record of a row of `flights`."""
    return Flight(
        id=found["id"],
        itinerary=found["itinerary"],
        sender=Sender(kind=found["sender_kind"], name=found["sender_name"], ref=found["sender_ref"]),
        receiver=found["receiver"],
        body=found["body"],
        created_at=found["created_at"],
        state=FlightState(found["state"]),
        hops_remaining=found["hops_remaining"],
        priority=found["priority"],
        key=found["key"],
        not_before=found["not_before"],
        held_reason=HeldReason(found["held_reason"]) if found["held_reason"] else None,
        reason=found["reason"],
        release_at=found["release_at"],
        attempt=found["attempt"],
        cause=Cause(found["cause"]),
        follows_run=found["follows_run"],
        joined=found["joined"],
        note=found["note"],
        outcome=Outcome(found["outcome"]) if found["outcome"] else None,
        ended_at=found["ended_at"],
        approved_at=found["approved_at"],
        approved_by=found["approved_by"],
        approval_note=found["approval_note"],
    )
