"""Secret values, replaced wherever they would be written down.

One masker for everything: the keeper feeds it the output of a program, the tower what arrives over the API or
MCP. What counts as a secret is the caller's list; where the masked bytes go is the caller's business too. The
keeper imports this module at each start, so nothing but the interpreter's own core is loaded at its top.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Final

MASK: Final = b"[masked]"
"""ASCII without quotes or backslashes: masked JSON stays JSON."""

SHORTEST: Final = 8
"""Bytes below which a value is not masked: `true` or `8080` would be struck out of every other line."""

SHORTEST_ANCHOR: Final = 8
"""Bytes from which on a part of a pattern is worth searching for in place of the whole."""

LONGEST_WORD: Final = 16
"""Letters up to which a value of letters alone is taken for a word (`production`) and not for a secret."""


def unmaskable(values: Mapping[str, str]) -> dict[str, str]:
    """Name -> why its value will not be masked, for the values that cannot be told from ordinary text."""
    reasons = {name: _weakness(_encoded(value).strip()) for name, value in values.items() if value.strip()}
    return {name: reason for name, reason in reasons.items() if reason}


def patterns(secrets: Iterable[str | bytes]) -> tuple[bytes, ...]:
    """All byte strings to look for: each value plain, JSON-escaped and URL-encoded, without doubles.

    White space around a value is no part of it: a key read from a file ends in a newline, and is printed
    without. JSON within JSON, which is how agent programs report what a tool printed, counts as JSON.
    """
    found: dict[bytes, None] = {}
    for secret in secrets:
        value = _encoded(secret).strip()
        if not _weakness(value):
            found.update(dict.fromkeys((value, *_in_json(value), *_in_urls(value))))
    return tuple(found)


def mask(text: str, patterns: Sequence[bytes]) -> str:
    """The whole `text` with every occurrence of a pattern replaced by `MASK`."""
    masker = Masker(patterns)
    data = text.encode("utf-8", "surrogatepass")
    return (masker.feed(data) + masker.flush()).decode("utf-8", "surrogatepass")


class Masker:
    """Masks a stream that arrives in chunks; how it was cut makes no difference to the bytes that come out.

    All occurrences are found in the original bytes, and overlapping ones give one mask, so that of two secrets
    which share bytes neither leaves a remainder. Held back is only what may be the beginning of a secret.
    """

    __slots__ = ("_anchors", "_carry", "_covered", "_patterns")

    def __init__(self, patterns: Sequence[bytes]) -> None:
        self._patterns = tuple(pattern for pattern in patterns if pattern)
        self._anchors = _anchors(self._patterns)
        self._carry = b""
        self._covered = 0
        """So many bytes at the front of the carry belong to an occurrence whose mask is out already."""

    def feed(self, chunk: bytes) -> bytes:
        """The bytes that are certain after `chunk`."""
        data = self._carry + chunk if self._carry else chunk
        return self._release(data, self._possible_start(data))

    def flush(self) -> bytes:
        """The rest, at the end of the stream."""
        return self._release(self._carry, len(self._carry))

    def _possible_start(self, data: bytes) -> int:
        """Where the longest tail begins that may turn out to be the beginning of a pattern."""
        start = len(data)
        for pattern in self._patterns:
            first = pattern[:1]
            at = data.find(first, max(0, len(data) - len(pattern) + 1), start)
            while at >= 0:
                if pattern.startswith(data[at:]):
                    start = at
                    break
                at = data.find(first, at + 1, start)
        return start

    def _release(self, data: bytes, until: int) -> bytes:
        """Mask `data[:until]` and keep the rest."""
        spans = self._spans(data)
        if not spans:
            self._carry = data[until:]
            return data[:until]
        pieces: list[bytes] = []
        at = self._covered
        for start, end in spans:
            if start >= until:
                break
            if start or not self._covered:
                pieces += (data[at:start], MASK)
            at = end
        pieces.append(data[at:until])
        self._carry = data[until:]
        self._covered = max(0, at - until)
        return b"".join(pieces)

    def _spans(self, data: bytes) -> list[tuple[int, int]]:
        """Start and end of every stretch to mask, in order; stretches that share bytes are one."""
        spans = [(0, self._covered)] if self._covered else []
        for anchor, members in self._anchors.items():
            at = data.find(anchor)
            while at >= 0:
                for pattern, offset in members:
                    if offset <= at and data.startswith(pattern, at - offset):
                        _add(spans, at - offset, at - offset + len(pattern))
                at = data.find(anchor, at + 1)
        if len(spans) < 2:
            return spans
        merged: list[tuple[int, int]] = []
        for start, end in sorted(spans):
            _add(merged, start, end)
        return merged


def _anchors(patterns: Iterable[bytes]) -> dict[bytes, list[tuple[bytes, int]]]:
    """What to search for -> the patterns that hold it, each with the place of it.

    The forms of one secret share the parts that no encoding changes: one search serves them all, and output is
    searched as often as there are secrets.
    """
    anchors: dict[bytes, list[tuple[bytes, int]]] = {}
    for pattern in patterns:
        anchor = next((known for known in anchors if known in pattern), None) or _longest_plain_part(pattern)
        anchors.setdefault(anchor, []).append((pattern, pattern.find(anchor)))
    return anchors


def _longest_plain_part(pattern: bytes) -> bytes:
    """The longest part of letters, digits and `-_.` if that is long enough, else all of it."""
    plain = bytes(byte if (chr(byte).isalnum() and byte < 128) or byte in b"-_." else 32 for byte in pattern)
    longest = max(plain.split(b" "), key=len)
    return longest if len(longest) >= SHORTEST_ANCHOR else pattern


def _add(spans: list[tuple[int, int]], start: int, end: int) -> None:
    """Append a stretch, or widen the last one if they share bytes."""
    if spans and spans[-1][0] <= start < spans[-1][1]:
        spans[-1] = (spans[-1][0], max(end, spans[-1][1]))
    else:
        spans.append((start, end))


def _encoded(value: str | bytes) -> bytes:
    """The bytes that a program is given for this value; names and values of the system may be no UTF-8."""
    return value if isinstance(value, bytes) else value.encode("utf-8", "surrogateescape")


def _weakness(value: bytes) -> str:
    """Why a value is no pattern; empty when it is one."""
    if len(value) < SHORTEST:
        return f"shorter than {SHORTEST} bytes"
    if value.lstrip(b"+-").replace(b".", b"", 1).isdigit():
        return "a number"
    if value.isalpha() and len(value) <= LONGEST_WORD and (value.islower() or value.isupper() or value.istitle()):
        return "a plain word"
    return ""


def _in_json(value: bytes) -> list[bytes]:
    import json

    levels = [value.decode("utf-8", "surrogateescape")]
    escaped: list[str] = []
    for _ in range(2):
        levels = [json.dumps(text, ensure_ascii=ascii_)[1:-1] for text in levels for ascii_ in (True, False)]
        escaped += levels
    # Go's encoder also escapes what HTML would read as markup.
    escaped += [text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e") for text in tuple(escaped)]
    return [text.encode("utf-8", "surrogateescape") for text in escaped]


def _in_urls(value: bytes) -> list[bytes]:
    from urllib.parse import quote_from_bytes

    # Python's default, everything, JavaScript's encodeURIComponent; and each as a form has it.
    upper = [quote_from_bytes(value, safe) for safe in ("/", "", "!'()*")]
    upper += [text.replace("%20", "+") for text in upper]
    return [text.encode("ascii") for text in upper] + [_lower_hex(text).encode("ascii") for text in upper]


def _lower_hex(quoted: str) -> str:
    head, *rest = quoted.split("%")
    return head + "".join("%" + part[:2].lower() + part[2:] for part in rest)
