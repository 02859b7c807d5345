"""From text to a TOML document, with syntax errors as problems that point at a line.

What the document says is left to `tables`.
"""

from __future__ import annotations

import re
from itertools import repeat
from typing import Any, Final

import tomli

from tower.config.positions import MAX_DEPTH, Place, Positions
from tower.config.problems import Findings
from tower.config.sources import Source

_WHERE: Final = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
_HINTS: Final = (
    ("Invalid value", 'put text in quotes: key = "text"'),
    ("Expected '='", "write key = value; a table is [name]"),
    ("Expected newline", "begin each key on a line of its own, and put text in quotes"),
    ("Illegal character", "write it as an escape such as \\u0007, or remove it"),
    ("Invalid hex value", "double the backslash, or use single quotes"),
    ("Unescaped '\\'", "double the backslash, or use single quotes"),
    ("Cannot", "the name is in use already; remove one of the two"),
    ("Unclosed", "put commas between elements, close the bracket, and look at the quotes before this place"),
    ("Expected ']'", "close the bracket; a name has no spaces"),
    ("Invalid statement", "a line is a [table], key = value, or a comment that begins with #"),
)
_HABITS: Final = (
    ("Invalid value", r"(?:true|false|yes|no|on|off)\b", "write true or false, in small letters"),
    ("Invalid value", r"(?:none|null|nil)\b", 'leave the key out, or write "" for none'),
    ("Invalid value", "[\u201c\u201d\u201e\u2018\u2019\u00ab]", 'write straight quotes: key = "text"'),
    ("Invalid statement", "//", "a comment begins with #"),
    ("Expected newline", r"(?<=[0-9])[a-z%]", 'put it in quotes, unit and all, such as "15m"'),
)
"""What stands at the place of a mistake, by habits from other languages: how the parser's words begin, text, hint."""
_UNCLOSED: Final = (r"Illegal character '\n'", "Unterminated string", "Expected \"'")
"""How the parser's words for a text without an end begin."""
_OTHERWISE: Final = "check the quotes and brackets here and before"


def parse(source: Source, findings: Findings) -> dict[str, Any] | None:
    """The document, or None after a problem was added. Takes bounded time and memory whatever the text is."""
    if _has_long_keys(source.text) and refuse_depth(source, findings):
        return None
    try:
        document = tomli.loads(source.text)
    except (ValueError, RecursionError) as error:
        if not refuse_depth(source, findings):
            _syntax(source, str(error), findings)
        return None
    if not document:
        _add(source, None, findings, "declares nothing", "`tower init` writes a factory that runs at once")
        return None
    return document


def refuse_depth(source: Source, findings: Findings) -> bool:
    """Add a problem when keys lie too deep in one another to be placed, as none of the format's do. Takes a while."""
    place = source.positions.too_deep
    if place:
        _add(source, place, findings, f"nests deeper than {MAX_DEPTH} levels", "no key lies that deep")
    return place is not None


def _has_long_keys(text: str) -> bool:
    """Whether a dotted key may be so long that the parser should not see it: prose of many sentences looks alike."""
    return max(map(str.count, text.split("\n"), repeat("."))) >= MAX_DEPTH


def _syntax(source: Source, message: str, findings: Findings) -> None:
    where = _WHERE.search(message)
    if where is None:
        _add(source, None, findings, f"is not TOML: {message}", _OTHERWISE)
        return
    what = message[: where.start()]
    place = (int(where[1]), int(where[2])) if where[1] else _end(source.text)
    repeat = source.positions.repeat
    # What the scanner saw behind the place where the parser stopped is another mistake, or none.
    if repeat and repeat[0] <= place and what.startswith(("Cannot", "Duplicate")):
        second, first = repeat
        _add(
            source, second, findings, "is not TOML: the name is set twice", f"line {first[0]} sets it first; remove one"
        )
        return
    if opening := _left_open(source.positions, what, place):
        quotes = _quotes(source.text, opening)
        _add(
            source, opening, findings, f"is not TOML: the text that opens here has no closing {quotes}", _close(quotes)
        )
        return
    _add(source, place, findings, f"is not TOML: {what[:1].lower()}{what[1:]}", _hint(what, source.text, place))


def _hint(what: str, text: str, place: Place) -> str:
    line = text.split("\n")[place[0] - 1]
    for beginning, habit, hint in _HABITS:
        if what.startswith(beginning) and re.compile(habit, re.IGNORECASE).match(line, place[1] - 1):
            return hint
    return next((hint for beginning, hint in _HINTS if what.startswith(beginning)), _OTHERWISE)


def _left_open(positions: Positions, what: str, place: Place) -> Place | None:
    """Where a text opens that has no end before `place`, or whose end was meant to open another one."""
    if positions.swallowing and positions.swallowing <= place:
        return positions.swallowing
    is_cause = positions.unclosed and positions.unclosed <= place and what.startswith(_UNCLOSED)
    return positions.unclosed if is_cause else None


def _quotes(text: str, place: Place) -> str:
    """The quotes that stand there."""
    line = text.split("\n")[place[0] - 1][place[1] - 1 :]
    return line[:3] if line[:3] in ('"""', "'''") else line[0]


def _close(quotes: str) -> str:
    if len(quotes) == 3:
        return f"write {quotes} where the text ends"
    return f"write {quotes} where the text ends, or three of them at both ends of a text of several lines"


def _end(text: str) -> Place:
    """Just behind the last thing that was written."""
    lines = text.rstrip().split("\n")
    return len(lines), len(lines[-1]) + 1


def _add(source: Source, place: Place | None, findings: Findings, sentence: str, hint: str) -> None:
    line, column = place or (0, 0)
    findings.add(source.file, line, column, "", sentence, hint, "error")
