"""Who may do what. A person at the socket may do everything; a run may send, and nothing else here."""

from __future__ import annotations

from tower.core.callers import Caller
from tower.core.errors import RefusedError


def require_person(caller: Caller, what: str) -> None:
    """Raise `RefusedError` when a run asks for what only a person may do; `what` completes "cannot ..."."""
    if not caller.is_person:
        raise RefusedError(
            "person-only",
            f"cannot {what}: {caller.name} asks from within run {caller.run}, and a run is never taken for a person",
            "from a run, `tower send NAME BODY` hands work on; the rest is for people",
        )
