"""Numbered schema changes, each a file `NNNN_name.sql`, applied once and in order.

The number of the last one stands in the database's `user_version`. A database written by a newer Tower is refused;
an older one is copied beside itself first.
"""

from __future__ import annotations

import sqlite3
from importlib import resources
from pathlib import Path

from tower.core.errors import TowerError


def steps() -> list[tuple[int, str]]:
    """Number and SQL text of every step, in order."""
    here = resources.files(__package__)
    found = [(int(entry.name[:4]), entry) for entry in here.iterdir() if entry.name.endswith(".sql")]
    return [(number, entry.read_text(encoding="utf-8")) for number, entry in sorted(found, key=lambda step: step[0])]


def migrate(connection: sqlite3.Connection, path: Path) -> str | None:
    """Bring the schema up to date. Returns the path of the copy that was kept, if there was an older database.

    Raises `TowerError` (code `newer-state`) when a newer version wrote it.
    """
    known = steps()
    newest = known[-1][0]
    try:
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    except sqlite3.DatabaseError as error:
        raise TowerError(
            "store",
            f"cannot read the database {path}: {error}",
            "move the file aside to start afresh, or restore it from a copy",
        ) from error
    if version > newest:
        raise TowerError(
            "newer-state",
            f"cannot use {path}: a newer version of Tower wrote it (schema {version}, this one knows {newest})",
            "install that version again, or point state_dir elsewhere",
        )
    copy = None
    if 0 < version < newest:
        copy = f"{path}.schema-{version}"
        Path(copy).unlink(missing_ok=True)
        connection.execute("VACUUM INTO ?", (copy,))
    for number, sql in known:
        if number > version:
            connection.executescript(f"BEGIN IMMEDIATE;\n{sql}\nPRAGMA user_version={number};\nCOMMIT;")
    return copy
