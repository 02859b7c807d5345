"""The files of one configuration, and where in them each key of the merged document stands.

Which files there are, and how their tables are merged, is left to `includes`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from tower.config.positions import KeyPath, Positions, scan

_OPENING: Final = re.compile(r"""[^=]*=[ \t]*(?:\"{3}|'{3})""")
"""A key and the quotes of a text of several lines."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """One file. Without slots, for what is found out about it later."""

    file: str
    """As a person would name it from where they stand."""
    text: str

    @cached_property
    def positions(self) -> Positions:
        """Looked for when they are first asked for: a file without mistakes never needs them, and it takes a while."""
        return scan(self.text)

    @cached_property
    def may_hold_nul(self) -> bool:
        """Whether a text may hold NUL. As such it is refused when a file is read, so only an escape can write it."""
        return "\\u0000" in self.text or "\\U00000000" in self.text


class Sources:
    """Every file that was read, the named one first."""

    def __init__(self, main: Source) -> None:
        self.main = main
        self.included: list[Source] = []
        self._elsewhere: dict[KeyPath, tuple[Source, KeyPath]] = {}

    def adopt(self, path: KeyPath, source: Source, inside: KeyPath) -> None:
        """Note that what lies at `path` of the merged document is what stands at `inside` of an included file."""
        self._elsewhere[path] = source, inside

    @property
    def all(self) -> tuple[Source, ...]:
        """Every file, in order."""
        return self.main, *self.included

    @property
    def may_hold_nul(self) -> bool:
        """Whether a text of any file may hold NUL."""
        return any(source.may_hold_nul for source in self.all)

    def __contains__(self, path: KeyPath) -> bool:
        source, inside = self._source(path)
        return inside in source.positions

    def find(self, path: KeyPath) -> tuple[str, int, int]:
        """File, line and column of a key, else of the nearest table around it, else of the file's beginning."""
        source, inside = self._source(path)
        return (source.file, *source.positions.find(inside))

    def inside(self, path: KeyPath, number: int, beginning: str) -> tuple[str, int, int]:
        """Where line `number` of the text at `path` stands, which begins like this; else where its key does."""
        file, line, column = self.find(path)
        lines = self._source(path)[0].text.split("\n")
        opening = _OPENING.match(lines[line - 1], column - 1)
        if opening:
            # A line break right after the quotes is no part of the text.
            line_there = line + number - (0 if opening.end() == len(lines[line - 1].rstrip("\r")) else 1)
            if line_there <= len(lines) and lines[line_there - 1].lstrip(" ").startswith(beginning):
                return file, line_there, 1
        return file, line, column

    def _source(self, path: KeyPath) -> tuple[Source, KeyPath]:
        for depth in (2, 1):
            if found := self._elsewhere.get(path[:depth]):
                source, inside = found
                return source, (*inside, *path[depth:])
        return self.main, path
