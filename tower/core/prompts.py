"""Instructions that are made of several files: the grammar of `@include`, and what a text comes to in one chain.

A line `@include PATH` stands for the text of another file, `@include(flag) PATH` and `@include(!flag) PATH` only in
chains whose flag is on or off. Finding and reading the files belongs to `config.composition`, filling in placeholders
to `payload`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

FLAG_PATTERN: Final = r"[A-Za-z_][A-Za-z0-9_]*"
"""A flag is an identifier."""

_LINE: Final = re.compile(r"[^\n]*\n|[^\n]+")
"""As editors count them: no other separator ends a line."""

_DIRECTIVE: Final = re.compile(r" {0,3}@include(?=[\s(\"']|$)(.*)", re.DOTALL)
"""Four blanks make code of a line in Markdown, where it is text."""

_FORM: Final = re.compile(
    rf"(?:\(\s*(?P<off>!?)\s*(?P<flag>{FLAG_PATTERN})\s*\))?"
    r"""\s*(?:"(?P<double>[^"]+)"|'(?P<single>[^']+)'|(?P<bare>[^\s"'(][^\s"']*))\s*"""
)
_CODE: Final = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})")
_BLANK_LINES: Final = re.compile(r"\A(?:[ \t]*\r?\n)+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A flag that has to be on, or off."""

    flag: str
    on: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Directive:
    """One `@include` line."""

    line: int
    """Counted from 1."""
    path: str
    when: Condition | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Malformed:
    """A line that begins like an `@include` and is none."""

    line: int
    why: str
    """Follows the word @include in a sentence."""
    hint: str


def pieces(text: str) -> Iterator[str | Directive | Malformed]:
    """The text in its order, cut at its `@include` lines; inside a fenced block of code these are text."""
    if "@include" not in text:
        if text:
            yield text
        return
    kept: list[str] = []
    fence = ""
    for number, line in enumerate(_LINE.findall(text), start=1):
        words = line.rstrip("\r\n")
        mark = _CODE.match(words)
        found = None if fence else _DIRECTIVE.match(words)
        if fence:
            closes = mark and mark[1].startswith(fence) and not words[mark.end() :].strip()
            fence = "" if closes else fence
        elif mark:
            fence = mark[1]
        if found is None:
            kept.append(line)
            continue
        if kept:
            yield "".join(kept)
            kept = []
        yield _directive(number, found[1])
    if kept:
        yield "".join(kept)


def _directive(line: int, rest: str) -> Directive | Malformed:
    found = _FORM.fullmatch(rest)
    if found:
        when = Condition(flag=found["flag"], on=not found["off"]) if found["flag"] else None
        return Directive(line=line, path=found["double"] or found["single"] or found["bare"], when=when)
    if rest.startswith("("):
        condition, closed, path = rest.partition(")")
        if not closed or not re.fullmatch(rf"\(\s*!?\s*{FLAG_PATTERN}\s*", condition):
            return Malformed(
                line=line,
                why="has no flag between its brackets",
                hint="write @include(flag) PATH or @include(!flag) PATH, with one flag",
            )
        rest = path
    if not rest.strip().strip("\"'"):
        return Malformed(line=line, why="names no file", hint="write @include PATH")
    return Malformed(
        line=line,
        why="is followed by more than one path",
        hint='put a path with blanks into quotes: @include "a file.md"; in a block of code the line is text',
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A part of a composed text, and the flags that it depends on."""

    text: str
    file: str | None = None
    """Absolute path of the file that it stands in; None for the configuration file."""
    when: frozenset[Condition] = frozenset()

    @property
    def is_possible(self) -> bool:
        """Whether any flags let it be told: not when it wants one both on and off."""
        return len({it.flag for it in self.when}) == len(self.when)

    def is_told(self, flags: Mapping[str, bool]) -> bool:
        """Whether it is told in a chain with these flags; one that is not among them is off."""
        return all(flags.get(it.flag, False) is it.on for it in self.when)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """Instructions, composed as far as they can be before a chain says what its flags are."""

    passages: tuple[Passage, ...] = ()
    digests: Mapping[str, str] = field(default_factory=dict)
    """Absolute path of each file in it -> SHA-256 of its bytes as they were read."""

    @classmethod
    def of(cls, text: str) -> Prompt:
        """Instructions that stand as they are written, in the configuration file."""
        return cls(passages=(Passage(text=text),))

    def text(self, flags: Mapping[str, bool]) -> str:
        """What is told in a chain with these flags. A part that is left out takes the blank line after it along."""
        told = ""
        hole = False
        for passage in self.passages:
            if not passage.text or not passage.is_told(flags):
                hole = True
                continue
            told += _BLANK_LINES.sub("", passage.text) if hole and _ends_blank(told) else passage.text
            hole = False
        return told

    def files(self, flags: Mapping[str, bool]) -> dict[str, str]:
        """The files that `text` is made of, each with its digest."""
        told = (passage.file for passage in self.passages if passage.is_told(flags))
        return {file: self.digests[file] for file in told if file is not None}

    @property
    def flags(self) -> frozenset[str]:
        """Every flag that makes a difference to it."""
        return frozenset(it.flag for passage in self.passages for it in passage.when)

    def sha256(self, flags: Mapping[str, bool]) -> str:
        """Names what is told in a chain with these flags."""
        return hashlib.sha256(self.text(flags).encode()).hexdigest()

    @property
    def fingerprint(self) -> str:
        """Tells two prompts apart, whatever the flags."""
        told = [(it.text, sorted((when.flag, when.on) for when in it.when)) for it in self.passages]
        return hashlib.sha256(repr(told).encode()).hexdigest()


def _ends_blank(text: str) -> bool:
    """Whether nothing stands before this place, or a blank line."""
    return not text or (text.endswith("\n") and not text[text.rfind("\n", 0, -1) + 1 :].strip())


def trimmed(text: str) -> str:
    """Without blank lines before and after. The lines that say something stay as they are, indentation included."""
    lines = text.splitlines(keepends=True)
    spoken = [number for number, line in enumerate(lines) if line.strip()]
    if not spoken:
        return ""
    first, last = spoken[0], spoken[-1]
    return "".join(lines[first:last]) + lines[last].splitlines()[0]
