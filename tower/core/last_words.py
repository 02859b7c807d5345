"""The one line of what a program printed that says most about its failure."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from tower.core.fences import inline

REASON_CHARS: Final = 300
"""Characters of a reason: a line that fits a screen and a notification."""

_ERROR: Final = re.compile(r"error|exception|fail|fatal|panic|denied|refused|cannot|not found", re.IGNORECASE)
_ESCAPES: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")


def best_line(err_tail: str, out_tail: str) -> str | None:
    """The one line that says most about a failure: the last that speaks of an error, else the last at all.

    Standard error is asked first. Escape sequences and control characters are gone, at most `REASON_CHARS` are left.
    """
    streams = [_lines(err_tail), _lines(out_tail)]
    telling = (line for lines in streams for line in reversed(lines) if _ERROR.search(line))
    last = (line for lines in streams for line in reversed(lines))
    return next(telling, None) or next(last, None)


def _lines(text: str) -> list[str]:
    return [line for raw in text.splitlines() if (line := one_line(raw))]


def one_line(text: str) -> str:
    """A text without line breaks, escape sequences and control characters, of at most `REASON_CHARS`."""
    printable = "".join(sign for sign in _ESCAPES.sub("", text) if sign.isspace() or unicodedata.category(sign) != "Cc")
    return inline(printable, REASON_CHARS)
