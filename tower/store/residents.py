"""Residents in the store: their processes, what they remember of their turns, and what people said of an agent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from tower.core.records import Process, Run, Standing
from tower.core.states import Outcome
from tower.store import runs
from tower.store.database import Connection, row, rows

_COLUMNS: Final = tuple(Standing.__dataclass_fields__)

_ANSWERED: Final = ", ".join(f"'{one}'" for one in (Outcome.SUCCEEDED, Outcome.SUSPECT, Outcome.FAILED))
"""How a turn ended to which its program gave a result."""


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


def resumed_in_vain(connection: Connection, process: Process) -> bool:
    """Whether a process was offered an earlier one's conversation, and has answered no turn with it."""
    if process.session is None:
        return False
    earlier = "SELECT 1 FROM processes WHERE agent = ? AND session = ? AND id < ? LIMIT 1"
    answered = f"SELECT 1 FROM runs WHERE process = ? AND outcome IN ({_ANSWERED}) LIMIT 1"  # noqa: S608 (constants)
    was_offered = row(connection, earlier, (process.agent, process.session, process.id)) is not None
    return was_offered and row(connection, answered, (process.id,)) is None


def forget_sessions(connection: Connection, agent: str) -> None:
    """From now on no process of an agent is offered a conversation of an earlier one."""
    connection.execute("UPDATE processes SET session = NULL WHERE agent = ? AND kind = 'resident'", (agent,))


def unknown_of(connection: Connection, identities: Iterable[str]) -> set[str]:
    """Those of some ids that no process on record has."""
    return {one for one in identities if row(connection, "SELECT 1 FROM processes WHERE id = ?", (one,)) is None}


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
