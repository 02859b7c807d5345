"""Circuits of runners that cannot work at the moment. A closed one has no row."""

from __future__ import annotations

import sqlite3

from tower.core.circuit import Circuit
from tower.store.database import Connection, row, rows


def every(connection: Connection) -> dict[str, Circuit]:
    """All that are open or half open, by runner."""
    return {found["runner"]: _circuit(found) for found in rows(connection, "SELECT * FROM circuits ORDER BY runner")}


def get(connection: Connection, runner: str) -> Circuit | None:
    """The circuit of a runner; None when it is closed."""
    found = row(connection, "SELECT * FROM circuits WHERE runner = ?", (runner,))
    return _circuit(found) if found else None


def put(connection: Connection, circuit: Circuit) -> None:
    """Write a circuit as it is now."""
    connection.execute(
        "INSERT OR REPLACE INTO circuits (runner, reason, opened_at, until, failures, probe) VALUES (?, ?, ?, ?, ?, ?)",
        (circuit.runner, circuit.reason, circuit.opened_at, circuit.until, circuit.failures, circuit.probe),
    )


def close(connection: Connection, runner: str) -> None:
    """Let everything through again."""
    connection.execute("DELETE FROM circuits WHERE runner = ?", (runner,))


def _circuit(found: sqlite3.Row) -> Circuit:
    return Circuit(
        runner=found["runner"],
        reason=found["reason"],
        opened_at=found["opened_at"],
        until=found["until"],
        failures=found["failures"],
        probe=found["probe"],
    )
