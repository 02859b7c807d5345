"""Residents in the store: their processes, what they remember of their turns, and what people said of an agent."""

from __future__ import annotations

from typing import Any, Final

from tower.core.records import Process, Run, Standing
from tower.store import runs
from tower.store.database import Connection, row, rows

_COLUMNS: Final = tuple(Standing.__dataclass_fields__)


def open_processes(connection: Connection) -> list[Process]:
    """Processes of residents that have not ended, by the record."""
    found = rows(connection, "SELECT * FROM processes WHERE kind = 'resident' AND ended_at IS NULL ORDER BY id")
    return [runs.process_of(one) for one in found]


def latest_process(connection: Connection, agent: str) -> Process | None:
    """The newest process of a resident that has had a turn, ended or not."""
    sql = "SELECT * FROM processes WHERE kind = 'resident' AND agent = ? AND turns > 0 ORDER BY id DESC LIMIT 1"
    found = row(connection, sql, (agent,))
    return runs.process_of(found) if found else None


def exits(connection: Connection, agent: str, since: float) -> list[float]:
    """When processes of a resident ended without being asked to, after a moment; oldest first."""
    found = rows(
        connection,
        "SELECT ended_at FROM processes WHERE kind = 'resident' AND agent = ? AND ended_at > ? AND exited = 1"
        " ORDER BY ended_at",
        (agent, since),
    )
    return [one[0] for one in found]


def by_token(connection: Connection, token_sha256: str) -> Process | None:
    """The living process of a resident that a token's hash belongs to."""
    found = row(connection, "SELECT * FROM processes WHERE token_sha256 = ? AND ended_at IS NULL", (token_sha256,))
    return runs.process_of(found) if found else None


def last_turns(connection: Connection, agent: str, *, limit: int) -> list[Run]:
    """The newest ended turns of a resident, oldest first."""
    sql = (
        "SELECT id FROM runs WHERE agent = ? AND turn IS NOT NULL AND state = 'ended' AND outcome != 'refused'"
        " ORDER BY id DESC LIMIT ?"
    )
    found = [runs.get(connection, one[0]) for one in rows(connection, sql, (agent, limit))]
    return [run for run in reversed(found) if run is not None]


def standing(connection: Connection, agent: str) -> Standing:
    """What was said of an agent; nothing, if nobody said anything."""
    found = row(connection, "SELECT * FROM standings WHERE agent = ?", (agent,))
    return Standing(**{name: found[name] for name in _COLUMNS}) if found else Standing(agent=agent)


def standings(connection: Connection) -> list[Standing]:
    """All that was said."""
    found = rows(connection, "SELECT * FROM standings ORDER BY agent")
    return [Standing(**{name: one[name] for name in _COLUMNS}) for one in found]


def say(connection: Connection, agent: str, **changes: Any) -> None:
    """Set columns of what is said of an agent."""
    unknown = changes.keys() - set(_COLUMNS)
    if unknown:
        raise ValueError(f"standings has no {', '.join(sorted(unknown))}")
    connection.execute("INSERT INTO standings (agent) VALUES (?) ON CONFLICT DO NOTHING", (agent,))
    assignments = ", ".join(f"{column} = ?" for column in changes)
    connection.execute(f"UPDATE standings SET {assignments} WHERE agent = ?", (*changes.values(), agent))  # noqa: S608 (columns are checked above)
