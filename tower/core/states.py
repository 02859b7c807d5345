"""The life of a flight as one table of legal moves, and the words for how runs end.

Nothing here stores or sends anything: the store asks `check_move` before it writes a state.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class FlightState(StrEnum):
    """Where a flight (message) stands."""

    QUEUED = "queued"
    HELD = "held"
    STARTING = "starting"
    RUNNING = "running"
    PARKED = "parked"
    LANDED = "landed"
    DEAD = "dead"
    HALTED = "halted"
    CANCELLED = "cancelled"
    REFUSED = "refused"
    EXPIRED = "expired"
    SUPERSEDED = "superseded"
    STRANDED = "stranded"


class HeldReason(StrEnum):
    """What a held flight waits for. Each hold also says in words what releases it."""

    FUEL = "fuel"
    RESERVE = "reserve"
    QUOTA = "quota"
    APPROVAL = "approval"
    RECOVERY = "recovery"
    OVER_BUDGET = "over-budget"
    GROUND_STOP = "ground-stop"
    ENVIRONMENT = "environment"
    AGENT = "agent"
    UNCONFIRMED = "unconfirmed"
    DISK = "disk"


class RunState(StrEnum):
    """Where a run stands: claimed, alive, over."""

    STARTING = "starting"
    RUNNING = "running"
    ENDED = "ended"


class Outcome(StrEnum):
    """How a run ended, judged from evidence (see `outcome`)."""

    SUCCEEDED = "succeeded"
    SUSPECT = "suspect"
    FAILED = "failed"
    UNAVAILABLE = "unavailable"
    TIMED_OUT = "timed_out"
    STALLED = "stalled"
    NO_OUTPUT = "no_output"
    INVALID_ANSWER = "invalid_answer"
    HALTED = "halted"
    CANCELLED = "cancelled"
    STEERED = "steered"
    INTERRUPTED = "interrupted"
    REFUSED = "refused"


class Cause(StrEnum):
    """Why a run was started."""

    DISPATCH = "dispatch"
    RECOVERY = "recovery"
    STEER = "steer"
    LAYOVER = "layover"
    REPLY = "reply"


class Interruption(StrEnum):
    """What cut a run off. The first six are names that `recover_on` may hold, with `failed` beside them."""

    TOWER_RESTART = "tower_restart"
    CRASH = "crash"
    LOST = "lost"
    TIMEOUT = "timeout"
    STALL = "stall"
    FIRST_OUTPUT = "first_output"
    GROUND_STOP = "ground_stop"
    CANCELLED = "cancelled"
    STEERED = "steered"
    FUEL = "fuel"


S = FlightState

MOVES: Final[dict[FlightState, frozenset[FlightState]]] = {
    S.QUEUED: frozenset({S.HELD, S.STARTING, S.PARKED, S.CANCELLED, S.REFUSED, S.EXPIRED}),
    S.HELD: frozenset({S.QUEUED, S.CANCELLED, S.REFUSED, S.EXPIRED}),
    # Back to queued only when it is proven that nothing was started.
    S.STARTING: frozenset({S.QUEUED, S.RUNNING, S.HELD, S.REFUSED, S.LANDED, S.DEAD, S.HALTED, S.CANCELLED}),
    S.RUNNING: frozenset({S.QUEUED, S.HELD, S.LANDED, S.DEAD, S.HALTED, S.CANCELLED}),
    # Released with the others of its join, replaced by a later delivery, or given up with its join.
    S.PARKED: frozenset({S.QUEUED, S.SUPERSEDED, S.STRANDED, S.CANCELLED}),
    # A person's word brings these back: `recover --force`, `recover --all-halted`, `retry`.
    S.DEAD: frozenset({S.QUEUED}),
    S.HALTED: frozenset({S.QUEUED, S.CANCELLED}),
    S.LANDED: frozenset({S.QUEUED}),
    S.CANCELLED: frozenset(),
    S.REFUSED: frozenset(),
    S.EXPIRED: frozenset(),
    S.SUPERSEDED: frozenset(),
    # A person releases it, or the sender that was missing delivers after all.
    S.STRANDED: frozenset({S.QUEUED, S.PARKED, S.SUPERSEDED, S.CANCELLED}),
}

WAITING: Final = frozenset({S.QUEUED, S.HELD, S.PARKED})
ALIVE: Final = frozenset({S.STARTING, S.RUNNING})
OVER: Final = frozenset(S) - WAITING - ALIVE


def check_move(before: FlightState, after: FlightState) -> None:
    """Raise `ValueError` unless a flight may go from `before` to `after`."""
    if after not in MOVES[before]:
        raise ValueError(f"a flight cannot go from {before} to {after}")
