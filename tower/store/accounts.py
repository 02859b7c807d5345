"""Reports of runs, and their requests for help."""

from __future__ import annotations

import json
import sqlite3
from typing import Final

from tower.core.accounts import HelpRequest, Report
from tower.store.database import Connection, row, rows

_COLUMNS: Final = tuple(HelpRequest.__dataclass_fields__)


def put_report(connection: Connection, report: Report) -> bool:
    """Write the report of a run in the place of its earlier one; returns whether there was one."""
    found = row(connection, "SELECT 1 FROM reports WHERE run = ?", (report.run,))
    connection.execute(
        "INSERT OR REPLACE INTO reports (run, at, headline, body, artifacts) VALUES (?, ?, ?, ?, ?)",
        (report.run, report.at, report.headline, report.body, json.dumps(report.artifacts)),
    )
    return found is not None


def report(connection: Connection, run: str) -> Report | None:
    """The report of a run, if it gave one."""
    found = row(connection, "SELECT * FROM reports WHERE run = ?", (run,))
    if found is None:
        return None
    return Report(
        run=found["run"],
        at=found["at"],
        headline=found["headline"],
        body=found["body"],
        artifacts=tuple(json.loads(found["artifacts"])),
    )


def ask_for_help(connection: Connection, wanted: HelpRequest) -> None:
    """Write a new request."""
    marks = ", ".join("?" * len(_COLUMNS))
    values = tuple(getattr(wanted, name) for name in _COLUMNS)
    connection.execute(f"INSERT INTO help_requests ({', '.join(_COLUMNS)}) VALUES ({marks})", values)  # noqa: S608 (columns are the record's)


def help_request(connection: Connection, identity: str) -> HelpRequest | None:
    """One request by its whole id."""
    found = row(connection, "SELECT * FROM help_requests WHERE id = ?", (identity,))
    return _request(found) if found else None


def open_of_run(connection: Connection, run: str) -> list[HelpRequest]:
    """What a run has asked for and nobody has resolved, oldest first."""
    sql = "SELECT * FROM help_requests WHERE run = ? AND resolved_at IS NULL ORDER BY id"
    return [_request(found) for found in rows(connection, sql, (run,))]


def of_run(connection: Connection, run: str) -> list[HelpRequest]:
    """All that a run has asked for, oldest first."""
    return [
        _request(found) for found in rows(connection, "SELECT * FROM help_requests WHERE run = ? ORDER BY id", (run,))
    ]


def open_of_itinerary(connection: Connection, itinerary: str) -> list[HelpRequest]:
    """What the runs of a chain have asked for and nobody has resolved, oldest first."""
    sql = "SELECT * FROM help_requests WHERE itinerary = ? AND resolved_at IS NULL ORDER BY id"
    return [_request(found) for found in rows(connection, sql, (itinerary,))]


def help_requests(connection: Connection, *, every: bool, agent: str | None = None, limit: int) -> list[HelpRequest]:
    """Requests, newest first: the open ones, or all."""
    # The condition stands as text, so that the partial index over open ones is used.
    which = "1" if every else "resolved_at IS NULL"
    sql = f"SELECT * FROM help_requests WHERE {which} AND (? IS NULL OR agent = ?) ORDER BY id DESC LIMIT ?"  # noqa: S608
    return [_request(found) for found in rows(connection, sql, (agent, agent, limit))]


def count_open(connection: Connection) -> int:
    """How many requests wait for a person."""
    found = row(connection, "SELECT count(*) FROM help_requests WHERE resolved_at IS NULL")
    return int(found[0]) if found else 0


def resolve(connection: Connection, identity: str, *, at: float, by: str, note: str | None) -> None:
    """Close a request."""
    connection.execute(
        "UPDATE help_requests SET resolved_at = ?, resolved_by = ?, note = ? WHERE id = ?", (at, by, note, identity)
    )


def waits_for_help(connection: Connection, itinerary: str) -> bool:
    """Whether a run of a chain ended on a fatal request that is open."""
    sql = "SELECT 1 FROM help_requests WHERE itinerary = ? AND fatal AND resolved_at IS NULL LIMIT 1"
    return row(connection, sql, (itinerary,)) is not None


def _request(found: sqlite3.Row) -> HelpRequest:
    return HelpRequest(**{name: found[name] for name in _COLUMNS} | {"fatal": bool(found["fatal"])})
