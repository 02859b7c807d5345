"""How a run is ended, as a timetable: what was asked, which step is due, and until when it may take.

Asked or by a limit: for a resident the end of its input, and a moment to go by itself; the polite signal to the
program, then to its group, then KILL to all. After the program's own end: TERM to what it left, then KILL to all.
Carrying the steps out is left to `supervisor`.
"""

from __future__ import annotations

from tower.system.keeper.clock import NEVER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

EOF_BEFORE: Final = 0.5
"""Seconds between the end of a resident's input and the polite signal: programs that heed it are gone in 0.1 s."""

GROUP_AFTER: Final = 2.0
"""Seconds from the polite signal to the program alone to the same for its process group."""

GIVE_UP_AFTER: Final = 10.0
"""Seconds of killing after which what still lives is reported and left."""


class Ending:
    """All times are those of the keeper's clock. `limit` and `word` say who asked first, for the record."""

    __slots__ = ("_group_at", "_kill_at", "_signal_at", "limit", "word")

    def __init__(self) -> None:
        self.limit: str | None = None
        self.word: str | None = None
        self._signal_at = NEVER
        self._group_at = NEVER
        self._kill_at = NEVER

    @property
    def why(self) -> str | None:
        """The word of a tower, or the limit that passed; None while nothing asks for an end."""
        return self.word or self.limit

    def ask(
        self, now: float, grace: float, *, word: str | None = None, limit: str | None = None, wait: float = 0.0
    ) -> bool:
        """Begin the end of a living program; asked again, only a shorter grace has an effect.

        True when this was the first time: then the polite signal is to be given, at once without a `wait`, else when
        so many seconds have passed in which the program may go by itself.
        """
        is_first = self.why is None
        self.word = self.word or word
        self.limit = self.limit or limit
        if is_first:
            self._signal_at = now + wait if wait else NEVER
            self._group_at = now + wait + GROUP_AFTER
        self.hasten(now + grace)
        return is_first

    def hasten(self, at: float) -> None:
        """Kill at this time unless that is to happen earlier anyway."""
        self._kill_at = min(self._kill_at, at)

    def has_exited(self, now: float, linger: float) -> None:
        """The program has ended: what it left may linger for so many seconds."""
        self._signal_at = self._group_at = NEVER
        self.hasten(now + linger)

    def signal_is_due(self, now: float) -> bool:
        """Whether the program is to get the polite signal; says so once."""
        if now < self._signal_at:
            return False
        self._signal_at = NEVER
        return True

    def group_is_due(self, now: float) -> bool:
        """Whether the group is to get the polite signal; says so once."""
        if now < self._group_at:
            return False
        self._group_at = NEVER
        return True

    def kill_is_due(self, now: float) -> bool:
        """Whether to kill all, again and again from its time on."""
        return now >= self._kill_at

    def is_hopeless(self, now: float) -> bool:
        """Whether killing has had its time."""
        return now >= self._kill_at + GIVE_UP_AFTER

    def next_due(self) -> float:
        return min(self._signal_at, self._group_at, self._kill_at)
