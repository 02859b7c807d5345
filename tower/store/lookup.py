"""Finding what a short id means, over all kinds at once."""

from __future__ import annotations

from typing import Final

from tower.core import ids
from tower.core.errors import InvalidError, NotFoundError
from tower.store.database import Connection, rows

_TABLES: Final = {
    ids.FLIGHT: ("flight", "flights"),
    ids.ITINERARY: ("itinerary", "itineraries"),
    ids.RUN: ("run", "runs"),
    ids.HELP: ("help request", "help_requests"),
}


def find(connection: Connection, text: str, *, kind: str | None = None) -> tuple[str, str]:
    """Kind and whole id of what a whole id or an unambiguous tail names; `kind` narrows it (flight, itinerary,
    run, help request).

    Raises `InvalidError` for text that cannot be an id, `NotFoundError` when nothing or several things fit,
    with the candidates.
    """
    if not ids.is_tail(text):
        raise InvalidError(
            "id", f"cannot read {text!r} as an id", "give a whole id or its last characters, as lists show them"
        )
    prefix, _, tail = text.rpartition("_")
    candidates = []
    # A whole id is looked up; for a tail all are walked over.
    is_whole = len(tail) == ids.ULID_CHARS
    for table_prefix, (name, table) in _TABLES.items():
        if (kind is None or kind == name) and (not prefix or prefix == table_prefix):
            fits = ("id = ?", f"{table_prefix}_{tail.upper()}") if is_whole else ("id LIKE ?", f"%{tail.upper()}")
            found = rows(
                connection,
                f"SELECT id FROM {table} WHERE {fits[0]} ORDER BY id DESC LIMIT 9",  # noqa: S608 (this module's)
                fits[1:],
            )
            candidates += [(name, one["id"]) for one in found]
    wanted = kind or "flight, itinerary, run or help request"
    if not candidates:
        raise NotFoundError(
            "unknown-id",
            f"cannot find a {wanted} called {text}",
            "`tower ps -a` and `tower queue` list what there is; what has ended is forgotten after retention_days",
        )
    if len(candidates) > 1:
        listed = ", ".join(identity for _, identity in candidates[:8])
        raise NotFoundError(
            "ambiguous-id",
            f"cannot tell which {wanted} {text} means: {listed}",
            "give more characters of the one you mean",
        )
    return candidates[0]
