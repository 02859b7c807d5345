"""Validation errors in words: what is wrong with a value, and what to write instead.

Only shapes, types and bounds pass through here. Values are never repeated, since a file may hold what should not be in
it; unknown keys are worded in `known`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Any, Final

from tower.config.values import DURATION_HINT, RefusedValueError

_TYPES: Final = {
    "string_type": ("must be text", 'write it in quotes: "..."'),
    "bool_type": ("must be true or false", "such as true, without quotes"),
    "int_type": ("must be a whole number", "such as 3, without quotes"),
    "float_type": ("must be a number", "such as 0.5, without quotes"),
    "finite_number": ("must be a finite number", "write an ordinary number"),
    "tuple_type": ("must be a list", 'put it into brackets: ["..."]'),
    "dict_type": ("must be a table", 'write a table: { NAME = "..." }'),
    "model_type": ("must be a table", "write a table: { key = value }"),
    "missing": ("is missing", "add it"),
    "too_short": ("must not be empty", "write at least one element"),
    "too_long": ("has too many elements", "shorten the list"),
    "string_too_long": ("is too long", "put long text into a file and name the file"),
}


_EXAMPLES: Final = {
    "command": '["my-agent", "--quiet", "-"]',
    "from": '"coder"',
    "to": '"reviewer"',
    "entry": '"coder"',
}
"""What required keys look like."""


def describe(error: Mapping[str, Any]) -> tuple[str, str]:
    """Sentence and hint for one error of pydantic at a known key."""
    kind, context = error["type"], error.get("ctx", {})
    refused = context.get("error")
    if isinstance(refused, RefusedValueError):
        return refused.sentence, refused.hint
    if kind == "literal_error":
        return _one_of(re.findall(r"'([^']*)'", context["expected"]), error["input"])
    key = str(error["loc"][-1])
    if kind == "missing" and key in _EXAMPLES:
        return "is missing", f"add it, such as {key} = {_EXAMPLES[key]}"
    if kind == "tuple_type" and key in _EXAMPLES:
        return "must be a list", f"write each word as an element of its own: {_EXAMPLES[key]}"
    if kind == "float_type" and key.endswith("_sec"):
        return "must be a duration", DURATION_HINT
    return _TYPES.get(kind, (error["msg"], ""))


def _one_of(words: list[str], given: Any) -> tuple[str, str]:
    near = difflib.get_close_matches(given, words, n=1) if isinstance(given, str) else []
    choice = ", ".join(f'"{word}"' for word in words)
    return f"must be one of {choice}", f'did you mean "{near[0]}"?' if near else f'write "{words[0]}", for example'
