"""Patterns of file names as a .gitignore has them: which may be asked for, and how a name is written as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tower.core.errors import InvalidError
from tower.system.git import shown

_SPECIAL: Final = frozenset(b"\\*?[ ")


def check_patterns(patterns: Sequence[str]) -> None:
    """Raise `InvalidError` for a pattern of ignored files to include that can match nothing inside a tree."""
    for pattern in patterns:
        if not pattern.strip() or pattern.startswith("!") or ".." in pattern.split("/") or shown(pattern) != pattern:
            raise InvalidError(
                "snapshot-include",
                f"cannot include {shown(pattern)!r}: it names no files inside the tree",
                "write patterns as in a .gitignore, such as `.env` or `/build/`; none that begins with `!`",
            )


def literal(name: bytes) -> bytes:
    """A name as a pattern that matches only this name."""
    return b"".join(b"\\%c" % letter if letter in _SPECIAL else b"%c" % letter for letter in name)
