"""Quoting text that somebody else wrote, so that it stays a quotation.

A fence is longer than any run of fence characters inside it, so nothing inside can close it. Every heading of
the tower carries one mark, `Tower:`; a line of foreign text that reads like such a heading is indented, so that no
memory, message or file name can open a section. Which sections there are belongs to `payload`.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

MARK: Final = "Tower:"
"""What every heading of the tower begins with, after its `#` signs."""

INDENT: Final = "    "
"""Four columns: in Markdown the start of literal text, which can be no heading."""

LEAST_FENCE: Final = 3
"""Characters of the shortest fence that Markdown knows."""

_FENCE_RUN: Final = re.compile(r"`+|~+")
_DECORATION: Final = re.compile(r"^[\s#>*_=~`+|\\-]+")
_INVISIBLE: Final = frozenset({"Cc", "Cf", "Cs", "Mn", "Me"})
_TURNING: Final = frozenset({"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"})
"""Bidirectional controls: they make a line read as what it does not say."""
_CUT: Final = "…"


def heading(title: str) -> str:
    """A heading of the tower's. Only the tower's own text may hold one."""
    return f"## {MARK} {title}"


def fence(text: str) -> str:
    """`text` as a quotation that it cannot leave, with lines that pass for a heading of the tower's indented."""
    longest = max((len(run) for run in _FENCE_RUN.findall(text)), default=0)
    bar = "`" * max(LEAST_FENCE, longest + 1)
    quoted = indent_headings(text.strip("\r\n"))
    return f"{bar}\n{quoted}\n{bar}"


def indent_headings(text: str) -> str:
    """Indent each line that looks like a heading of the tower's. Doing it twice changes nothing more."""
    return "".join(
        INDENT + line if looks_like_heading(line) else line
        # Every separator that some reader takes for the end of a line counts, not the line feed alone.
        for line in text.splitlines(keepends=True)
    )


def looks_like_heading(line: str) -> bool:
    """Whether a reader may take the line for a heading of the tower's, whatever decorates the mark.

    Case, width, spacing, invisible characters and Markdown's signs make no difference; indented lines are safe.
    """
    if line.startswith((INDENT, "\t")):
        return False
    rest = _DECORATION.sub("", _visible(line), count=1).casefold()
    name = MARK.rstrip(":").casefold()
    return rest.startswith(name) and rest[len(name) :].lstrip(" \t*_`").startswith(":")


def inline(text: str, limit: int) -> str:
    """`text` on one line of at most `limit` characters, its control characters replaced; a longer one ends in `…`."""
    words = " ".join(text.split())
    clean = "".join("\ufffd" if _steers(sign) else sign for sign in words[: limit + 1])
    return clean if len(clean) <= limit else clean[: limit - 1] + _CUT


def tail(raw: bytes, limit: int) -> str:
    """The last `limit` bytes as text, beginning with a whole character. Bytes that are no UTF-8 are replaced."""
    kept = raw[-limit:] if limit > 0 else b""
    if len(kept) < len(raw):
        kept = kept[_partial(kept) :]
    return kept.decode(errors="replace")


def _partial(raw: bytes) -> int:
    """How many bytes at the start belong to a character that was cut: at most 3, as UTF-8 has it."""
    return next((n for n, byte in enumerate(raw[:3]) if byte & 0xC0 != 0x80), min(len(raw), 3))


def _steers(sign: str) -> bool:
    return unicodedata.category(sign) in {"Cc", "Cs"} or unicodedata.bidirectional(sign) in _TURNING


def _visible(line: str) -> str:
    if line.isascii() and line.rstrip("\r\n").isprintable():
        return line
    folded = unicodedata.normalize("NFKC", line)
    return "".join(sign for sign in folded if unicodedata.category(sign) not in _INVISIBLE or sign == "\t")
