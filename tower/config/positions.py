"""Where each key of a TOML document stands, since `tomli` does not say.

The scanner knows only as much of TOML as is needed to find keys and the ends of values. It is exact on documents that
`tomli` accepts, and on any other text it ends, raises nothing, and is exact up to the first mistake. Values and
syntax errors are left to `tomli`.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping
from typing import Final, TypeAlias

import tomli

KeyPath: TypeAlias = tuple[str | int, ...]
"""Names of tables and keys, and indices of array elements: `("routes", 0, "to")`."""

Place: TypeAlias = tuple[int, int]
"""Line and column, both counted from 1; columns are characters."""

MAX_DEPTH: Final = 16
"""Parts of a key path. The deepest key of the format has six; `tomli` takes quadratic memory for deep keys and
fails on deep values, so whoever parses a document should look at `Positions.too_deep` first."""

_BLANK: Final = re.compile(r"[ \t]*")
# Each loop is unrolled (`x*(?:yx*)*`), so that a text without an end fails in linear time. Possessive quantifiers would
# say the same, but Python before 3.11.5 matches them wrongly.
_GAP: Final = re.compile(r"[ \t\r\n]*(?:#[^\n]*[ \t\r\n]*)*")
_KEY: Final = re.compile(r"""[A-Za-z0-9_-]+|"[^"\\\n]*(?:\\.[^"\\\n]*)*"|'[^'\n]*'""")
_STRING: Final = re.compile(
    r'"""[^"\\]*(?:(?:\\.|"{1,2}(?!"))[^"\\]*)*"{3,5}'
    r"|'''[^']*(?:'{1,2}(?!')[^']*)*'{3,5}"
    r'|"(?!"")[^"\\\n]*(?:\\[^\n][^"\\\n]*)*"'
    r"|'(?!'')[^'\n]*'",
    re.DOTALL,
)
_OPENS_ANOTHER: Final = re.compile(r"""\n[ \t]*[A-Za-z0-9_-]+[ \t]*=[ \t]*(?:\"{3}|'{3})\Z""")
_SCALAR: Final = re.compile(r"""[^\s,=\[\]{}#"'][^,\[\]{}#"'\n]*""")


class Positions:
    """Places of the keys of one document."""

    def __init__(
        self,
        text: str,
        offsets: Mapping[KeyPath, int],
        *,
        repeat: tuple[int, int] | None = None,
        unclosed: int | None = None,
        swallowing: int | None = None,
        too_deep: int | None = None,
    ) -> None:
        self._newlines = [found.start() for found in re.finditer("\n", text)]
        self._offsets = offsets
        self.repeat = None if repeat is None else (self._place(repeat[0]), self._place(repeat[1]))
        """Where the first key that is set twice stands for the second time, and for the first."""
        self.unclosed = None if unclosed is None else self._place(unclosed)
        """Where the first text opens that has no closing quotes."""
        self.swallowing = None if swallowing is None else self._place(swallowing)
        """Where the first text opens whose end looks like the opening of another."""
        self.too_deep = None if too_deep is None else self._place(too_deep)
        """Where a key path passes `MAX_DEPTH`; nothing after that place is known."""

    def __contains__(self, path: KeyPath) -> bool:
        return path in self._offsets

    def find(self, path: KeyPath) -> Place:
        """The place of a key, else of the nearest table or key around it, else the document's beginning."""
        while path and path not in self._offsets:
            path = path[:-1]
        return self._place(self._offsets[path]) if path else (1, 1)

    def _place(self, offset: int) -> Place:
        before = bisect_left(self._newlines, offset)
        start = self._newlines[before - 1] + 1 if before else 0
        return before + 1, offset - start + 1


def scan(text: str) -> Positions:
    """Find every key of a document. Raises nothing, whatever the text is; takes time linear in its length."""
    scanner = _Scanner(text)
    too_deep = None
    try:
        scanner.document()
    except _TooDeepError:
        too_deep = scanner.at
    return Positions(
        text,
        scanner.offsets,
        repeat=scanner.repeat,
        unclosed=scanner.unclosed,
        swallowing=scanner.swallowing,
        too_deep=too_deep,
    )


class _MalformedError(Exception):
    """This is no TOML; the scanner goes on at the next line."""


class _TooDeepError(Exception):
    """A path has more than `MAX_DEPTH` parts."""


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.table: KeyPath = ()
        self.offsets: dict[KeyPath, int] = {}
        self.repeat: tuple[int, int] | None = None
        self.unclosed: int | None = None
        self.swallowing: int | None = None
        self._implied: set[KeyPath] = set()
        """Tables known only because a longer header or dotted key went through them."""
        self._last: dict[KeyPath, int] = {}
        """Index of the newest element of each array of tables."""

    def document(self) -> None:
        while True:
            self._skip(_GAP)
            if self.at >= len(self.text):
                return
            try:
                if self.text[self.at] == "[":
                    self._header()
                else:
                    self._pair(self.table)
            except _MalformedError:
                pass
            end = self.text.find("\n", self.at)
            self.at = len(self.text) if end < 0 else end

    def _header(self) -> None:
        array = self.text.startswith("[[", self.at)
        self.at += 2 if array else 1
        parts = self._key()
        path: KeyPath = ()
        for name, offset in parts[:-1]:
            path = self._into((*path, name), offset)
        name, offset = parts[-1]
        path = (*path, name)
        self._note(path, offset, implied=array)
        if array:
            self._last[path] = self._last.get(path, -1) + 1
            path = (*path, self._last[path])
            self._note(path, offset)
        self.table = path

    def _into(self, path: KeyPath, offset: int) -> KeyPath:
        """The table that a header's part leads into: for an array of tables, its newest element."""
        self._note(path, offset, implied=True)
        return (*path, self._last[path]) if path in self._last else path

    def _pair(self, path: KeyPath) -> None:
        parts = self._key()
        for name, offset in parts:
            path = (*path, name)
            self._note(path, offset, implied=offset != parts[-1][1])
        self._expect("=")
        self._skip(_BLANK)
        self._value(path)

    def _key(self) -> list[tuple[str, int]]:
        """A dotted key: its names with their offsets."""
        parts: list[tuple[str, int]] = []
        while True:
            self._skip(_BLANK)
            start = self.at
            parts.append((_name(self._take(_KEY)), start))
            if len(parts) > MAX_DEPTH:
                self.at = start
                raise _TooDeepError
            self._skip(_BLANK)
            if not self.text.startswith(".", self.at):
                return parts
            self.at += 1

    def _value(self, path: KeyPath) -> None:
        first = self.text[self.at : self.at + 1]
        if first == "[":
            self._array(path)
        elif first == "{":
            self._inline_table(path)
        elif first in ('"', "'"):
            self._string()
        else:
            self._take(_SCALAR)

    def _string(self) -> None:
        start = self.at
        try:
            text = self._take(_STRING)
        except _MalformedError:
            self.unclosed = start if self.unclosed is None else self.unclosed
            raise
        if self.swallowing is None and _OPENS_ANOTHER.search(text):
            self.swallowing = start

    def _array(self, path: KeyPath) -> None:
        self.at += 1
        index = 0
        self._skip(_GAP)
        while not self.text.startswith("]", self.at):
            self._note((*path, index), self.at)
            self._value((*path, index))
            index += 1
            self._comma_or("]")
        self.at += 1

    def _inline_table(self, path: KeyPath) -> None:
        self.at += 1
        self._skip(_GAP)
        while not self.text.startswith("}", self.at):
            self._pair(path)
            self._comma_or("}")
        self.at += 1

    def _comma_or(self, closing: str) -> None:
        self._skip(_GAP)
        if not self.text.startswith(closing, self.at):
            self._expect(",")
            self._skip(_GAP)

    def _note(self, path: KeyPath, offset: int, *, implied: bool = False) -> None:
        """Remember a place. The first counts, except that where a table is declared beats where it was implied."""
        if len(path) > MAX_DEPTH:
            raise _TooDeepError
        if path not in self.offsets:
            self.offsets[path] = offset
            if implied:
                self._implied.add(path)
        elif not implied and path in self._implied:
            self.offsets[path] = offset
            self._implied.discard(path)
        elif not implied and self.repeat is None:
            self.repeat = offset, self.offsets[path]

    def _skip(self, pattern: re.Pattern[str]) -> None:
        found = pattern.match(self.text, self.at)
        self.at = found.end() if found else self.at

    def _take(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self.text, self.at)
        if found is None:
            raise _MalformedError
        self.at = found.end()
        return found[0]

    def _expect(self, character: str) -> None:
        if not self.text.startswith(character, self.at):
            raise _MalformedError
        self.at += 1


def _name(token: str) -> str:
    """The name that a key token stands for."""
    if token[0] not in "\"'":
        return token
    if "\\" not in token:
        return token[1:-1]
    try:
        return str(tomli.loads(f"key = {token}")["key"])
    except ValueError:
        return token[1:-1]
