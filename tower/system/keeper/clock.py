"""The keeper's own time, and the limits of a run counted in it."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    from tower.system.keeper.protocol import LimitSeconds

TICK: Final = 1.0
"""Seconds between two looks at the clock when nothing else happens."""

GAP: Final = 5.0
"""Seconds between two looks from which on the keeper, or the machine, must have been asleep."""

NEVER: Final = float("inf")


class Clock:
    """Seconds since the keeper began to count, without those in which it was stopped or the machine suspended."""

    __slots__ = ("_seen", "now")

    def __init__(self, monotonic: float) -> None:
        self._seen = monotonic
        self.now = 0.0

    def advance(self, monotonic: float) -> None:
        """Count the time since the last call; a gap counts as one tick."""
        passed = monotonic - self._seen
        self._seen = monotonic
        self.now += passed if passed <= GAP else TICK


MUTE_AFTER: Final = 1.0
"""Seconds that a resident may live on when it has closed its output: a program that ends closes it just before."""


class LimitWatch:
    """Which limit of the run has passed. All times are those of one `Clock`, which began with the program.

    A resident's limits are those of its turn; between turns only the orphan's is counted.
    """

    __slots__ = ("_alone_since", "_began", "_heard", "_last_sign", "_mute_at", "_seconds")

    def __init__(self, seconds: LimitSeconds) -> None:
        self._seconds = seconds
        self._began = 0.0
        self._heard = False
        self._last_sign = 0.0
        self._alone_since: float | None = None
        self._mute_at = NEVER

    def begin_turn(self, now: float, *, timeout: float | None, stall: float | None, first_output: float | None) -> None:
        """From now on these limits hold, counted from now."""
        self._seconds = {**self._seconds, "timeout": timeout, "stall": stall, "first_output": first_output}
        self._began = self._last_sign = now
        self._heard = False

    def end_turn(self) -> None:
        """None of a turn's limits holds any more."""
        self._seconds = {**self._seconds, "timeout": None, "stall": None, "first_output": None}

    def muted(self, now: float) -> None:
        """A resident has closed its standard output: it can answer nothing any more."""
        self._mute_at = now + MUTE_AFTER

    def heard(self, now: float) -> None:
        """The program wrote something."""
        self._heard = True
        self._last_sign = now

    def poked(self, now: float) -> None:
        """The tower saw a tool call."""
        self._last_sign = now

    def attended(self, now: float, *, towers: int) -> None:
        """So many towers are connected now."""
        if towers:
            self._alone_since = None
        elif self._alone_since is None:
            self._alone_since = now

    def passed(self, now: float) -> str | None:
        """The limit that has passed: the one that was due first."""
        at, name = min(self._due())
        return name if at <= now else None

    def next_due(self) -> float:
        """When the next limit will have passed unless something happens; `NEVER` without limits."""
        return min(self._due())[0]

    def _due(self) -> list[tuple[float, str]]:
        seconds = self._seconds
        due = [(NEVER, ""), (self._mute_at, "mute")]
        if seconds["timeout"] is not None:
            due.append((self._began + seconds["timeout"], "timeout"))
        if seconds["first_output"] is not None and not self._heard:
            due.append((self._began + seconds["first_output"], "first_output"))
        if seconds["stall"] is not None:
            due.append((self._last_sign + seconds["stall"], "stall"))
        if seconds["orphan"] and self._alone_since is not None:
            due.append((self._alone_since + seconds["orphan"], "orphan"))
        return due
