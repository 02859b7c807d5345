"""The circuit of a runner: open while its provider cannot work, tried again by one flight at a time.

Closed, everything may start. A run that ended as unavailable opens it until the moment that the program named, else
for a pause that grows. After that it is half open: one flight is let through, and how its run ends decides.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from tower.core.states import Outcome

PAUSES: Final = (60.0, 120.0, 240.0, 480.0, 960.0, 1800.0)
"""Seconds for which it is open when the program names no moment: 1, 2, 4 ... 30 minutes."""

LONGEST_SEC: Final = 31 * 86400.0
"""No provider's limit lasts longer than a month: a later moment is a mistake."""

PROVEN_BY: Final = frozenset(
    {Outcome.SUCCEEDED, Outcome.SUSPECT, Outcome.FAILED, Outcome.INVALID_ANSWER, Outcome.TIMED_OUT}
)
"""Ends of a run that show that its program could work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Circuit:
    """An open circuit; one that is closed has no record. Times are seconds since the epoch."""

    runner: str
    reason: str
    opened_at: float
    until: float
    failures: int = 1
    """Runs in a row that found the program unable to work."""
    probe: str | None = None
    """The run that tries it."""

    def is_open(self, now: float) -> bool:
        """Whether nothing is let through; otherwise one flight is."""
        return now < self.until

    def words(self) -> str:
        """Why flights wait, and what changes that."""
        return (
            f"runner {self.runner} cannot work: {self.reason};"
            f" it is tried again by itself, or at once after `tower runners reset {self.runner}`"
        )


def failed(
    before: Circuit | None,
    *,
    runner: str,
    run: str,
    reason: str,
    now: float,
    reset_at: float | None,
    jitter: float,
) -> Circuit:
    """The circuit after `run` found that the program cannot work.

    `reset_at` is the moment that the program named. Runs that were under way when it opened say nothing new, but may
    know of a later moment. `jitter` is a factor near 1 for the pause.
    """
    named = min(reset_at, now + LONGEST_SEC) if reset_at is not None and reset_at > now else None
    if before is not None and before.probe != run and before.is_open(now):
        return replace(before, until=max(before.until, named or before.until))
    failures = 1 if before is None else before.failures + 1
    pause = PAUSES[min(failures, len(PAUSES)) - 1] * jitter
    return Circuit(
        runner=runner,
        reason=reason,
        opened_at=now if before is None else before.opened_at,
        until=named or now + pause,
        failures=failures,
    )


def ended(before: Circuit | None, *, run: str, outcome: Outcome) -> Circuit | None:
    """The circuit after a run ended otherwise: closed (None) when it was the one that tried it, and it could work."""
    if before is None or before.probe != run:
        return before
    return None if outcome in PROVEN_BY else replace(before, probe=None)
