"""Entries of memory files and of the logbook: how one is written, how a text is cut, and what goes when it is full.

An entry is a heading that the tower writes (when, by whom) and the agent's words under it. Words that pass for such a
heading are indented, so that no entry can speak for another run. The files are `system.notebooks`'.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from tower.core.errors import InvalidError
from tower.core.fences import INDENT, tail

ENTRY_BYTES: Final = 16 << 10
"""Of one entry: some four times what a run is shown of its memory unless told otherwise."""

MEMORY_BYTES: Final = 1 << 20
"""Of one agent's memory, the greatest `memory_bytes`: what is older is never shown."""

READ_BYTES: Final = 64 << 10
"""The most that one reading gives to an agent: it lands in its context."""

LOOK_BYTES: Final = READ_BYTES + 4
"""What is read of a file for that: one character more, so that the first one is seen to be whole."""

READ_LINES: Final = 200
"""Lines of the logbook that are read unless told otherwise."""

_HEADING: Final = re.compile(r"^### \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC, (?P<by>.*)$", re.MULTILINE)


def entry(text: str, *, at: float, by: str) -> str:
    """One entry, an empty line before it. Raises `InvalidError` for text that is empty or no text."""
    if not text.strip():
        raise InvalidError("empty-text", "cannot write down nothing", "give the text to remember")
    if any("\ud800" <= sign <= "\udfff" for sign in text) or "\0" in text:
        raise InvalidError("not-text", "cannot write this down: it is not UTF-8 text", "give plain text")
    lines = (INDENT + line if _HEADING.match(line.lstrip()) else line for line in text.strip("\r\n").splitlines())
    return f"\n### {datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC, {by}\n\n" + "\n".join(lines) + "\n"


def cut_entry(text: str) -> tuple[str, bool]:
    """The first `ENTRY_BYTES` of a text in whole characters, and whether that is less than all of it."""
    raw = text.encode("utf-8", "surrogatepass")
    if len(raw) <= ENTRY_BYTES:
        return text, False
    return raw[:ENTRY_BYTES].decode("utf-8", "ignore"), True


def appended(memory: bytes, new: str, most: int = MEMORY_BYTES) -> tuple[bytes, int]:
    """The memory with one more entry, and how many old entries had to go to keep it within `most` bytes.

    The oldest entries go, whole; what stands above the first entry is a person's and stays. Where that leaves too
    much, the new entry is added all the same: nothing of a person's is dropped.
    """
    text = memory.decode("utf-8", "replace")
    whole = (text.rstrip("\n") + "\n" if text.strip() else "") + new
    starts = [found.start() for found in _HEADING.finditer(whole)]
    raw = whole.encode()
    if len(raw) <= most or len(starts) < 2:
        return raw, 0
    # A quarter more than it must: not every write should have to drop something.
    wanted, head = most * 3 // 4, whole[: starts[0]]
    sizes = [len(whole[begin:].encode()) for begin in starts]
    keep = next((i for i, size in enumerate(sizes) if size + len(head.encode()) <= wanted), len(starts) - 1)
    return (head + whole[starts[keep] :]).encode(), keep


def entries_of(text: str, run: str) -> tuple[str, ...]:
    """The words of the entries that a run wrote, oldest first; what stands before the first whole entry is not seen."""
    found = list(_HEADING.finditer(text))
    ends = [heading.start() for heading in found[1:]] + [len(text)]
    return tuple(
        text[heading.end() : end].strip("\n")
        for heading, end in zip(found, ends, strict=False)
        if heading["by"].rpartition(", ")[2] == run
    )


def last_lines(raw: bytes, lines: int, total: int) -> str:
    """The last `lines` lines of what was read of a file of `total` bytes, with a word first when that is not all."""
    text = tail(raw, READ_BYTES)
    kept = text.splitlines(keepends=True)[-lines:]
    shown = "".join(kept)
    if len(shown.encode()) < total:
        return f"(cut: the last {len(kept)} lines)\n{shown}"
    return shown
