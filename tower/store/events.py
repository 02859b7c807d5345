"""What happened, in order: append and read. The sequence number is the store's and never reused."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace

from tower.core.records import Event
from tower.store.database import Connection, row, rows


def append(connection: Connection, event: Event) -> Event:
    """Write an event; it is announced when the transaction is on disk. Returns it with its `seq`."""
    cursor = connection.execute(
        "INSERT INTO events (at, type, itinerary, flight, run, agent, data) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (event.at, event.type, event.itinerary, event.flight, event.run, event.agent, json.dumps(dict(event.data))),
    )
    numbered = replace(event, seq=cursor.lastrowid or 0)
    connection.pending_events.append(numbered)
    return numbered


def after(connection: Connection, seq: int, *, limit: int = 500) -> list[Event]:
    """Events with a greater sequence number, oldest first."""
    found = rows(connection, "SELECT * FROM events WHERE seq > ? ORDER BY seq LIMIT ?", (seq, limit))
    return [_event(found_row) for found_row in found]


def last_seq(connection: Connection, *, itinerary: str | None = None) -> int:
    """The newest sequence number, of all or of one itinerary; 0 when there is none."""
    if itinerary is None:
        found = row(connection, "SELECT max(seq) FROM events")
    else:
        found = row(connection, "SELECT max(seq) FROM events WHERE itinerary = ?", (itinerary,))
    return int(found[0] or 0) if found else 0


def of_itinerary(connection: Connection, itinerary: str, *, limit: int = 500) -> list[Event]:
    """The events of one chain, oldest first."""
    sql = "SELECT * FROM events WHERE itinerary = ? ORDER BY seq LIMIT ?"
    return [_event(found) for found in rows(connection, sql, (itinerary, limit))]


def _event(found: sqlite3.Row) -> Event:
    return Event(
        seq=found["seq"],
        at=found["at"],
        type=found["type"],
        itinerary=found["itinerary"],
        flight=found["flight"],
        run=found["run"],
        agent=found["agent"],
        data=json.loads(found["data"]),
    )
