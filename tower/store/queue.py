"""The queue of flights, read so that it takes as long for ten thousand that wait as for ten.

A line is what one chain has queued for one agent with one priority; triggers of the schema keep the first flight of
each. Whose turn it is, is `core.admission`'s.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tower.core.records import Flight
from tower.store.database import Connection, row, rows
from tower.store.flights import FIRST, IN_LINE, OPEN, flight_of

DUE_AT_ONCE: Final = 256
"""Flights whose time has come that are looked at together; more than could start at once."""


def heads(connection: Connection, *, most: int, busy: int, now: float) -> list[Flight]:
    """The flights whose turn may be next: for each agent as many as `most`, which is how many may start at once.

    `busy` chains have live runs, and so may have to let others go first: there are so many lines more.
    """
    return [flight for agent in _agents(connection) for flight in _of_agent(connection, agent, most, busy)] + [
        flight_of(found)
        for found in rows(
            connection,
            f"SELECT * FROM flights WHERE {IN_LINE} AND not_before <= ? ORDER BY not_before, id LIMIT ?",  # noqa: S608 (a constant)
            (now, DUE_AT_ONCE),
        )
    ]


def _agents(connection: Connection) -> Iterator[str]:
    agent = ""
    while (found := row(connection, "SELECT min(receiver) FROM lines WHERE receiver > ?", (agent,))) and found[0]:
        agent = found[0]
        yield agent


def _of_agent(connection: Connection, agent: str, most: int, busy: int) -> Iterator[Flight]:
    lines = rows(
        connection,
        "SELECT itinerary, priority FROM lines WHERE receiver = ? ORDER BY priority DESC, created_at, first LIMIT ?",
        (agent, most + busy),
    )
    for line in lines:
        found = rows(
            connection,
            f"SELECT * FROM flights WHERE {IN_LINE} AND not_before IS NULL"  # noqa: S608 (a constant)
            " AND receiver = ? AND itinerary = ? AND priority = ? ORDER BY created_at, id LIMIT ?",
            (agent, line["itinerary"], line["priority"], -(-most // len(lines))),
        )
        yield from map(flight_of, found)


def waiting(connection: Connection, *, limit: int = 1000) -> list[Flight]:
    """Flights that are queued, held or parked, those that are queued first, then by priority and age.

    Of those that a join released together, the first.
    """
    sql = (
        f"SELECT * FROM flights WHERE state IN ('queued', 'held', 'parked') AND {OPEN} AND {FIRST}"  # noqa: S608
        " ORDER BY state != 'queued', priority DESC, created_at, id LIMIT ?"
    )
    return [flight_of(found) for found in rows(connection, sql, (limit,))]


def is_queued_for(connection: Connection, receiver: str) -> bool:
    """Whether anything is queued for an agent that may start now."""
    return row(connection, "SELECT 1 FROM lines WHERE receiver = ? LIMIT 1", (receiver,)) is not None


def next_due(connection: Connection, now: float) -> float | None:
    """The soonest `not_before` of a queued flight that is still ahead."""
    sql = f"SELECT min(not_before) FROM flights WHERE {IN_LINE} AND not_before > ?"  # noqa: S608 (a constant)
    found = row(connection, sql, (now,))
    return found[0] if found else None
