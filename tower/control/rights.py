"""Who may do what. A person at the socket may do everything; a run what its tools offer, and nothing else."""

from __future__ import annotations

from tower.core.callers import Caller
from tower.core.errors import RefusedError


def require_person(caller: Caller, what: str) -> None:
    """Raise `RefusedError` when a run asks for what only a person may do; `what` completes "cannot ..."."""
    if not caller.is_person:
        asks = f"within run {caller.run}" if caller.run else f"process {caller.process}"
        raise RefusedError(
            "person-only",
            f"cannot {what}: {caller.name} asks from {asks}, and a run is never taken for a person",
            "from a run, `tower send NAME BODY` hands work on; the rest is for people",
        )


def require_run(caller: Caller, what: str) -> str:
    """The run that asks. Raises `RefusedError` for a person, and for a resident that has no turn."""
    if caller.run is not None:
        return caller.run
    if caller.process is not None:
        raise RefusedError(
            "between-turns",
            f"cannot {what}: no turn of {caller.name}'s process is under way",
            "a resident speaks for the flight that it is working on; between two it may only ask for its status",
        )
    raise RefusedError(
        "run-only",
        f"cannot {what}: {caller.name} is no run",
        "this is for agents; a run shows the token that it was started with",
    )
