"""The one root of all errors that a person or an agent may read.

Each carries a stable code (for programs), one sentence that starts with "cannot ..." and names the thing
(for people), and a hint that says what to do about it. How an error becomes an HTTP status or an exit code
is left to `web` and `cli`.
"""

from __future__ import annotations


class TowerError(Exception):
    """Root of Tower's errors: `code` is stable, `sentence` names the thing, `hint` says how to mend it."""

    def __init__(self, code: str, sentence: str, hint: str = "") -> None:
        super().__init__(sentence)
        self.code = code
        self.sentence = sentence
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.sentence}; {self.hint}" if self.hint else self.sentence


class RefusedError(TowerError):
    """A rule said no: a route, a rail, a right, a limit. Asking again without a change gives the same answer."""


class InvalidError(TowerError):
    """The request itself is malformed: a bad name, a body that is no text, a number out of range."""


class NotFoundError(TowerError):
    """What was named does not exist, or its short form fits several."""


class ConflictError(TowerError):
    """What was asked does not fit the present state (cancelling what has ended, a key used for another body)."""


class BusyError(TowerError):
    """Not now: no space, no descriptor, a lock held by another. Trying again later may work."""


class UnreachableError(TowerError):
    """No daemon answered where one was looked for."""
