"""Runs and their processes: the claim, what becomes known while they live, and reading them back."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from typing import Any, Final

from tower.core.launch import WRITTEN
from tower.core.records import Process, Run
from tower.core.states import Cause, Interruption, Outcome, RunState
from tower.store.database import Connection, row, rows

_RUN_COLUMNS: Final = tuple(name for name in Run.__dataclass_fields__ if name != "flights")
_PROCESS_COLUMNS: Final = tuple(Process.__dataclass_fields__)


_OPEN: Final = "runs INDEXED BY runs_open WHERE state != 'ended'"
"""Those that were claimed and have not ended. Left to itself, SQLite walks over all that there ever were."""


def insert_process(connection: Connection, process: Process) -> None:
    """Write the record of a process before it exists."""
    _insert(connection, "processes", {name: getattr(process, name) for name in _PROCESS_COLUMNS})


def insert(connection: Connection, run: Run) -> None:
    """Write a run with the flights that it is told of."""
    values = {name: getattr(run, name) for name in _RUN_COLUMNS} | {
        "notes": json.dumps(run.notes),
        "prompt_files": json.dumps(dict(run.prompt_files)),
    }
    _insert(connection, "runs", values)
    connection.executemany(
        "INSERT INTO run_flights (run, flight, position) VALUES (?, ?, ?)",
        [(run.id, flight, position) for position, flight in enumerate(run.flights)],
    )


def next_number(connection: Connection, agent: str) -> int:
    """Count one more run of this agent and return its number."""
    found = row(
        connection,
        "INSERT INTO agent_runs (agent, count) VALUES (?, 1)"
        " ON CONFLICT (agent) DO UPDATE SET count = count + 1 RETURNING count",
        (agent,),
    )
    assert found is not None  # noqa: S101 (RETURNING always returns)
    return int(found[0])


def update(connection: Connection, identity: str, **changes: Any) -> None:
    """Set columns of a run."""
    _update(connection, "runs", _RUN_COLUMNS, identity, changes)


def update_process(connection: Connection, identity: str, **changes: Any) -> None:
    """Set columns of a process."""
    _update(connection, "processes", _PROCESS_COLUMNS, identity, changes)


def add_notes(connection: Connection, identity: str, notes: Iterable[str]) -> None:
    """Append to what a person should know of a run; what stands there already is not said twice."""
    found = row(connection, "SELECT notes FROM runs WHERE id = ?", (identity,))
    known: list[str] = json.loads(found[0]) if found else []
    known += [note for note in dict.fromkeys(notes) if note not in known]
    connection.execute("UPDATE runs SET notes = ? WHERE id = ?", (json.dumps(known), identity))


def get(connection: Connection, identity: str) -> Run | None:
    """One run by its whole id."""
    found = row(connection, "SELECT * FROM runs WHERE id = ?", (identity,))
    return _run(connection, found) if found else None


def process(connection: Connection, identity: str) -> Process | None:
    """One process by its whole id."""
    found = row(connection, "SELECT * FROM processes WHERE id = ?", (identity,))
    return process_of(found) if found else None


def process_of(found: sqlite3.Row) -> Process:
    """A row of the table as a record."""
    return Process(**{name: found[name] for name in _PROCESS_COLUMNS} | {"exited": bool(found["exited"])})


def by_token(connection: Connection, token_sha256: str) -> Run | None:
    """The open run that a token's hash stands for: its own, or the turn under way of the process that has the token."""
    found = row(connection, "SELECT * FROM runs WHERE token_sha256 = ? AND state != 'ended'", (token_sha256,)) or row(
        connection,
        "SELECT runs.* FROM processes JOIN runs ON runs.process = processes.id"
        " WHERE processes.token_sha256 = ? AND runs.state = 'running'",
        (token_sha256,),
    )
    return _run(connection, found) if found else None


def open_runs(connection: Connection) -> list[Run]:
    """Runs that were claimed and have not ended, oldest first."""
    found = rows(connection, f"SELECT * FROM {_OPEN} ORDER BY id")  # noqa: S608 (a constant)
    return [_run(connection, one) for one in found]


def listing(connection: Connection, *, every: bool, agent: str | None = None, limit: int) -> list[Run]:
    """Runs, newest first: those alive, or all."""
    which = "runs WHERE 1" if every else _OPEN
    # Not `? IS NULL OR agent = ?`, which no index serves.
    of_agent, named = ("", ()) if agent is None else (" AND agent = ?", (agent,))
    sql = f"SELECT * FROM {which}{of_agent} ORDER BY id DESC LIMIT ?"  # noqa: S608 (constants)
    return [_run(connection, found) for found in rows(connection, sql, (*named, limit))]


def ended_since(connection: Connection, since: float) -> list[Run]:
    """Runs that were started and ended since a time, newest first."""
    sql = "SELECT * FROM runs WHERE ended_at >= ? AND cost_source IS NOT NULL ORDER BY ended_at DESC"
    return [_run(connection, found) for found in rows(connection, sql, (since,))]


def written_since(connection: Connection, since: float) -> list[str]:
    """The folders in which writers have been at work at or after a time."""
    kinds = ", ".join(f"'{kind}'" for kind in sorted(WRITTEN))
    sql = (
        f"SELECT workspace FROM {_OPEN} AND workspace_kind IN ({kinds})"  # noqa: S608 (constants)
        f" UNION SELECT workspace FROM runs WHERE ended_at >= ? AND workspace_kind IN ({kinds})"
    )
    return [found["workspace"] for found in rows(connection, sql, (since,))]


def of_itinerary(connection: Connection, itinerary: str) -> list[Run]:
    """All runs of a chain, oldest first."""
    found = rows(connection, "SELECT * FROM runs WHERE itinerary = ? ORDER BY id", (itinerary,))
    return [_run(connection, one) for one in found]


def of_flight(connection: Connection, flight: str) -> list[Run]:
    """All runs that were told of a flight, oldest first."""
    sql = "SELECT runs.* FROM run_flights JOIN runs ON id = run WHERE flight = ? ORDER BY id"
    return [_run(connection, found) for found in rows(connection, sql, (flight,))]


def _insert(connection: Connection, table: str, values: dict[str, Any]) -> None:
    columns = ", ".join(values)
    marks = ", ".join("?" * len(values))
    connection.execute(f"INSERT INTO {table} ({columns}) VALUES ({marks})", tuple(values.values()))  # noqa: S608 (names are this module's)


def _update(connection: Connection, table: str, known: tuple[str, ...], identity: str, changes: dict[str, Any]) -> None:
    unknown = changes.keys() - set(known)
    if unknown:
        raise ValueError(f"{table} has no {', '.join(sorted(unknown))}")
    assignments = ", ".join(f"{column} = ?" for column in changes)
    connection.execute(f"UPDATE {table} SET {assignments} WHERE id = ?", (*changes.values(), identity))  # noqa: S608 (columns are checked above)


def _run(connection: Connection, found: sqlite3.Row) -> Run:
    values = {name: found[name] for name in _RUN_COLUMNS}
    told = rows(connection, "SELECT flight FROM run_flights WHERE run = ? ORDER BY position", (found["id"],))
    values |= {
        "state": RunState(found["state"]),
        "cause": Cause(found["cause"]),
        "outcome": Outcome(found["outcome"]) if found["outcome"] else None,
        "interruption": Interruption(found["interruption"]) if found["interruption"] else None,
        "notes": tuple(json.loads(found["notes"])),
        "prompt_files": json.loads(found["prompt_files"]),
        "flights": tuple(one["flight"] for one in told),
    }
    return Run(**values)
