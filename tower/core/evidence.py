"""Evidence of how a run ended: what a runner's reader found in its output, and all else that is known of it.

Reading it is `runners`' and the engine's, judging it `outcome`'s.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal

from tower.core.factory import Agent
from tower.core.launch import ExitRecord
from tower.core.states import Interruption


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultRecord:
    """What a program said of its own end, in the record with which it closes its output."""

    ok: bool
    failure: str | None = None
    """Why not, in words."""
    doubts: tuple[str, ...] = ()
    """What makes its success one to look at (denied tools, an empty answer), in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a runner's reader found in the output and the report. Unknown is None, never 0."""

    answer: str | None = None
    model: str | None = None
    tokens_in: int | None = None
    """Cached ones included."""
    tokens_cached: int | None = None
    tokens_written: int | None = None
    """Those of the tokens in that were written to a cache."""
    tokens_out: int | None = None
    cost: int | None = None
    """Micro-dollars, as the program named them; whether that is believed is `pricing`'s."""
    credits: Decimal | None = None
    """What it used, in units of its provider's."""
    problems: tuple[str, ...] = ()
    """What could not be read, one sentence each; it goes to the run's notes."""
    unavailable: str | None = None
    """Why the program could not work at all (quota, sign-in, overload), in words."""
    promises_record: bool = False
    """Its program closes its output with a result record, unless something went wrong."""
    record: ResultRecord | None = None
    reset_at: float | None = None
    """When it can work again, if it said so: seconds since the epoch."""
    retry_after: float | None = None
    """The same in seconds from its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All that is known of a run that is over."""

    exit: ExitRecord | None
    """None: keeper and process are gone, and nothing was recorded."""
    reading: Reading = field(default_factory=Reading)
    out_tail: str = ""
    err_tail: str = ""
    """The end of each stream, as masked in the logs."""
    cut: int = 0
    """Bytes of its output that were dropped, to keep its logs within their bound."""
    stopping: str | None = None
    """What the tower's own record says it asked for; counts when the keeper left no word."""
    agent: Agent | None = None
    """Whose run it was: its limits are named in words."""
    without_exit: Interruption = Interruption.TOWER_RESTART
    """What a missing exit record means: found at a start (tower_restart), or while the tower lived (lost)."""
