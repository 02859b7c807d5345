"""Striking out what looks like a credential, in text that a person will read and that was not meant to hold any.

Known values are `masking`'s; this finds unknown ones by their shape, and only where a shape is hardly ever anything
else. It is for requests for help, which leave the machine by `notify`.
"""

from __future__ import annotations

import re
from typing import Final

STRUCK: Final = "[redacted]"

_SHAPES: Final = (
    re.compile(r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z)", re.DOTALL),
    re.compile(r"\beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,}"),  # JSON web tokens
    re.compile(r"\b(?:sk|pk|rk)[-_][A-Za-z0-9_-]{16,}"),
    re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,})"),
    re.compile(r"\bxox[abeprs]-[A-Za-z0-9-]{10,}"),
    re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    re.compile(r"\bAIza[\w-]{30,}"),
)
"""Credentials that say what they are."""

_AFTER: Final = (
    re.compile(r"(://[^\s/:@]{1,256}:)[^\s/@]{1,256}(?=@)"),
    re.compile(r"(?i)(\bauthorization\s{0,4}[:=]\s{0,4}(?:(?:bearer|basic|token)\s{1,4})?)[^\s,;\"']{6,}"),
    re.compile(
        r"(?i)(\b[\w-]{0,40}(?:password|passwd|secret|token|api[_-]?key|access[_-]?key)[\"']?\s{0,4}[:=]\s{0,4}[\"']?)"
        r"[^\s,;\"']{6,}"
    ),
)
"""What stands behind a word that announces a credential; the word stays."""


def strike(text: str) -> str:
    """`text` with everything that is shaped like a credential replaced. Doing it twice changes nothing more."""
    for shape in _SHAPES:
        text = shape.sub(STRUCK, text)
    for announced in _AFTER:
        text = announced.sub(rf"\1{STRUCK}", text)
    return text
