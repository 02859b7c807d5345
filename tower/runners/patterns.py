"""`unavailable_patterns`: what a program prints when it could not work at all, for those without a reader of their own.

What follows from that, and how long it is waited, is left to `core.outcome` and the engine.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from tower.core.evidence import Reading
from tower.core.factory import Runner

LINES: Final = 200
"""Lines of the end of each stream that are looked at: a program gives up at its end."""

LINE_CHARS: Final = 1000
"""Of each line, so that no pattern meets a text of megabytes."""


def recognised(runner: Runner, reading: Reading, *tails: str) -> Reading:
    """The reading, which says that the program was unavailable when a line of its output matches a pattern."""
    if not runner.unavailable_patterns or reading.unavailable is not None:
        return reading
    if reading.record is not None and reading.record.ok:
        # Its own word, beside which the same phrase may be anybody's.
        return reading
    patterns = [re.compile(pattern) for pattern in runner.unavailable_patterns]
    lines = (line[:LINE_CHARS] for tail in tails for line in reversed(tail.splitlines()[-LINES:]))
    found = next((line for line in lines if any(pattern.search(line) for pattern in patterns)), None)
    return reading if found is None else replace(reading, unavailable=f"the program printed: {found.strip()}")
