"""Generations: each configuration that was ever live, with its time and digest."""

from __future__ import annotations

from tower.store.database import Connection, row


def record(connection: Connection, *, digest: str, path: str, at: float) -> int:
    """The number of this configuration: the newest one's when nothing changed since, else a new one."""
    newest = row(connection, "SELECT number, digest FROM generations ORDER BY number DESC LIMIT 1")
    if newest and newest["digest"] == digest:
        return int(newest["number"])
    number = int(newest["number"]) + 1 if newest else 1
    connection.execute(
        "INSERT INTO generations (number, digest, path, loaded_at) VALUES (?, ?, ?, ?)", (number, digest, path, at)
    )
    return number
