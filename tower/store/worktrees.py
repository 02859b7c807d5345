"""Work trees of chains: which there are, why they stay, and which chains are over long enough."""

from __future__ import annotations

from typing import Final

from tower.core.records import WorktreeRecord
from tower.store.database import Connection, row, rows

_COLUMNS: Final = tuple(WorktreeRecord.__dataclass_fields__)

_OPEN: Final = """
SELECT 1 FROM flights WHERE itinerary = ?1 AND (
  state IN ('queued', 'held', 'parked', 'halted', 'starting', 'running') OR coalesce(ended_at, created_at) > ?2
) UNION ALL
SELECT 1 FROM runs WHERE itinerary = ?1 AND (state != 'ended' OR coalesce(ended_at, claimed_at) > ?2)
LIMIT 1
"""
"""The states are those of the index `flights_open`."""


def insert(connection: Connection, worktree: WorktreeRecord) -> None:
    """Write down a work tree before it is made; known already, it stays as it is."""
    marks = ", ".join("?" * len(_COLUMNS))
    connection.execute(
        f"INSERT OR IGNORE INTO worktrees ({', '.join(_COLUMNS)}) VALUES ({marks})",  # noqa: S608 (names are this module's)
        tuple(getattr(worktree, name) for name in _COLUMNS),
    )


def listing(connection: Connection, itinerary: str | None = None) -> list[WorktreeRecord]:
    """All work trees, oldest first, or those of one chain."""
    sql = "SELECT * FROM worktrees WHERE ?1 IS NULL OR itinerary = ?1 ORDER BY made_at"
    found = rows(connection, sql, (itinerary,))
    return [WorktreeRecord(**{name: one[name] for name in _COLUMNS}) for one in found]


def keep(connection: Connection, worktree: WorktreeRecord, why: str) -> None:
    """Write down why a work tree stays."""
    connection.execute(
        "UPDATE worktrees SET kept = ? WHERE itinerary = ? AND live = ?", (why, worktree.itinerary, worktree.live)
    )


def delete(connection: Connection, worktree: WorktreeRecord) -> None:
    """Forget a work tree that is removed."""
    connection.execute("DELETE FROM worktrees WHERE itinerary = ? AND live = ?", (worktree.itinerary, worktree.live))


def is_in_use(connection: Connection, itinerary: str, since: float) -> bool:
    """Whether anything of a chain is open, or ended after a moment."""
    return row(connection, _OPEN, (itinerary, since)) is not None
