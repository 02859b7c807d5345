"""A file that says, by being there, that something is to be so until somebody takes it away.

It survives everything, and `touch` and `rm` work when nothing answers. What follows from it is left to who asks.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeGuard

from tower.system.files import read_regular, write_private

MAX_BYTES: Final = 32 << 10
"""What is read of the file: as much as the longest reason takes that the API accepts, every character escaped."""

WORDS_CHARS: Final = 200
"""Characters that are shown of a file which is no record of ours."""

YEAR_9999: Final = 253_370_764_800.0
"""Seconds since the epoch; later moments cannot be written as a date."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Who gave it, when (seconds since the epoch), and why."""

    since: float
    by: str
    why: str


@dataclass(frozen=True, slots=True)
class StandingOrder:
    """An order at one path."""

    path: Path

    def is_there(self) -> bool:
        """Whatever has the name counts, a link to nowhere as well."""
        return os.path.lexists(self.path)

    def read(self, now: float) -> Order | None:
        """What the file says, or None when there is none. An empty or strange file is an order as well.

        `now` is when it was given if neither the file nor its time can say so.
        """
        try:
            made = self.path.lstat().st_mtime
        except OSError:
            return None
        said = _said((read_regular(self.path, MAX_BYTES) or b"").decode(errors="replace").strip())
        since = next(filter(_is_moment, (said["since"], made)), now)
        return Order(since=since, by=str(said["by"]), why=str(said["why"]))

    def give(self, order: Order) -> bool:
        """Make the file; False when there was room for its name alone. Raises `OSError` when not even for that."""
        text = json.dumps({"since": order.since, "by": order.by, "why": order.why}) + "\n"
        try:
            write_private(self.path, text.encode())
        except OSError:
            # A full disk may have room for a name still.
            self.path.touch(mode=0o600)
            return False
        return True

    def withdraw(self) -> None:
        """Remove the file, if it is there. Raises `OSError`."""
        self.path.unlink(missing_ok=True)


def _said(text: str) -> dict[str, Any]:
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        said = None
    if isinstance(said, dict) and {"since", "by", "why"} <= said.keys():
        return said
    return {"since": None, "by": "hand (the file was made)", "why": text[:WORDS_CHARS]}


def _is_moment(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and 0 <= value < YEAR_9999
