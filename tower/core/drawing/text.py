"""Text in drawings: how wide it is, cut to a length, and written so that it stays text whatever it holds.

No font is known here, so widths are estimated, on the generous side of common sans-serif faces.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

_EM: Final = {
    **dict.fromkeys("iljftrI .,:;'|!()[]/\\-`", 0.38),
    **dict.fromkeys("ABCDGHNOQRUVXY&+=<>~^#", 0.82),
    **dict.fromkeys("mwMW@%…—", 0.97),
}
"""Widths of characters in parts of the font's size; DejaVu Sans, one of the widest, was measured."""
_OTHER: Final = 0.62
_FULL: Final = 1.02
"""Of characters that take the place of two, as those of Chinese do."""
BOLD: Final = 1.1

_UNSEEN: Final = re.compile(
    # What XML cannot hold, what has no picture, and what would turn the text around it.
    "[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff]+"
)
_PLAIN_IN_MERMAID: Final = re.compile(r"[^A-Za-z0-9 _.,/$·…\u00c0-\uffff-]")


def width(text: str, size: float, *, bold: bool = False) -> float:
    """Pixels that one line of text takes at most, about, for a font of `size` pixels."""
    ems = 0.0
    for character in text:
        if character in _EM:
            ems += _EM[character]
        elif unicodedata.east_asian_width(character) in "WF":
            ems += _FULL
        elif not unicodedata.combining(character):
            ems += _OTHER
    return ems * size * (BOLD if bold else 1.0)


def one_line(text: str, most: int = 1000) -> str:
    """The text on one line, without characters that cannot be seen, at most so many."""
    line = " ".join(_UNSEEN.sub(" ", text).split())
    return line if len(line) <= most else f"{line[: most - 1].rstrip()}…"


def xml(text: str) -> str:
    """As the content of an element or a quoted attribute."""
    line = one_line(text)
    for character, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"), ("'", "&#39;")):
        line = line.replace(character, entity)
    return line


def mermaid(text: str) -> str:
    """As a quoted label of a Mermaid diagram: what could mean anything there is written as its number."""
    return _PLAIN_IN_MERMAID.sub(lambda found: f"#{ord(found[0])};", one_line(text))
