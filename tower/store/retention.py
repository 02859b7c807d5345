"""Records that are old enough to be forgotten: chains that are over, ended processes, events.

How old is old, and the folders that go with the records, are left to `engine.retention`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tower.core.launch import WRITTEN
from tower.store.database import Connection, rows

_CHAINS: Final = """
SELECT id FROM itineraries WHERE created_at < ?1
AND NOT EXISTS (
  SELECT 1 FROM flights WHERE itinerary = itineraries.id AND (
    state IN ('queued', 'held', 'parked', 'halted', 'starting', 'running') OR coalesce(ended_at, created_at) >= ?1
  )
)
AND NOT EXISTS (
  SELECT 1 FROM runs WHERE itinerary = itineraries.id AND (state != 'ended' OR coalesce(ended_at, claimed_at) >= ?1)
)
AND NOT EXISTS (SELECT 1 FROM help_requests WHERE itinerary = itineraries.id AND fatal = 1 AND resolved_at IS NULL)
ORDER BY id LIMIT ?2
"""
"""The states are those of the index `flights_open`: something is still waited for."""


def chains(connection: Connection, before: float, *, limit: int) -> list[str]:
    """Itineraries of which nothing is open and nothing ended at or after a moment, oldest first."""
    found = rows(connection, _CHAINS, (before, limit))
    return [one[0] for one in found]


def runs_of(connection: Connection, itineraries: Sequence[str]) -> list[tuple[str, str]]:
    """Agent and id of every run of these chains."""
    marks = ", ".join("?" * len(itineraries))
    found = rows(connection, f"SELECT agent, id FROM runs WHERE itinerary IN ({marks})", tuple(itineraries))  # noqa: S608 (marks alone)
    return [(one[0], one[1]) for one in found]


def trees(connection: Connection) -> set[str]:
    """The trees that writers on record found and left."""
    kinds = ", ".join(f"'{kind}'" for kind in sorted(WRITTEN))
    sql = f"SELECT tree_before, tree_after FROM runs WHERE workspace_kind IN ({kinds})"  # noqa: S608 (constants)
    return {tree for found in rows(connection, sql) for tree in found if tree is not None}


def forget_chains(connection: Connection, itineraries: Sequence[str]) -> None:
    """Delete chains with all that belongs to them."""
    connection.executemany("DELETE FROM itineraries WHERE id = ?", [(identity,) for identity in itineraries])


def processes(connection: Connection, before: float, *, limit: int) -> list[tuple[str, str]]:
    """Agent and id of processes that ended before a moment, and of whose runs none is on record any more."""
    found = rows(
        connection,
        "SELECT agent, id FROM processes WHERE ended_at < ?"
        " AND NOT EXISTS (SELECT 1 FROM runs WHERE process = processes.id) LIMIT ?",
        (before, limit),
    )
    return [(one[0], one[1]) for one in found]


def forget_processes(connection: Connection, identities: Sequence[str]) -> None:
    """Delete processes that no run refers to."""
    connection.executemany("DELETE FROM processes WHERE id = ?", [(identity,) for identity in identities])


def forget_events(connection: Connection, before: float, *, limit: int) -> int:
    """Delete events of before a moment, but for those of chains that are on record; how many they were."""
    return connection.execute(
        "DELETE FROM events WHERE seq IN (SELECT seq FROM events WHERE at < ? AND (itinerary IS NULL"
        " OR NOT EXISTS (SELECT 1 FROM itineraries WHERE id = events.itinerary)) ORDER BY seq LIMIT ?)",
        (before, limit),
    ).rowcount
