"""What `{name}` means: in commands (`[runners.*] command`, `args`) and in text that the operator wrote.

Known names are filled in one pass, so a value is never read for placeholders again; unknown braces stay as they are.
Which values they have is decided by those who call.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

IN_COMMANDS: Final = frozenset(
    {"prompt", "model", "effort", "context", "mcp", "args", "name", "workspace", "run_dir", "session", "config_dir"},
)
IN_TEXT: Final = frozenset({"agent", "model", "runner", "workspace", "run_id", "itinerary"})

ARGS: Final = "{args}"
"""Stands in a command where the arguments go; without it they go to the end."""

_NAME: Final = re.compile(r"\{([a-z_]+)\}")


def fill(text: str, values: Mapping[str, str]) -> str:
    """`text` with each `{name}` that `values` knows replaced; everything else stays byte for byte."""
    return _NAME.sub(lambda found: values.get(found[1], found[0]), text)


def fill_command(words: Sequence[str], args: Sequence[str], values: Mapping[str, str | None]) -> tuple[str, ...]:
    """An argument vector from a command with placeholders and the arguments that are added to it.

    A word whose placeholder is unset (None) disappears, with the option before it that it is the value of.
    """
    unset = {name for name, value in values.items() if value is None}
    known = {name: value for name, value in values.items() if value is not None}
    kept: list[str] = []
    before: str | None = None
    for word in _with_args(words, args):
        if unset.isdisjoint(_NAME.findall(word)):
            kept.append(fill(word, known))
            before = word
        else:
            if before is not None and _is_option(before):
                kept.pop()
            before = None
    return tuple(kept)


def unknown_names(words: Sequence[str]) -> tuple[str, ...]:
    """Names in braces that no command knows, in order: a typing error, or braces that are meant."""
    found = (name for word in words for name in _NAME.findall(word))
    return tuple(dict.fromkeys(name for name in found if name not in IN_COMMANDS))


def _with_args(words: Sequence[str], args: Sequence[str]) -> list[str]:
    if ARGS not in words:
        return [*words, *args]
    return [part for word in words for part in (args if word == ARGS else (word,))]


def _is_option(word: str) -> bool:
    """`--model` or `-m` wait for a value; `-` and `--` mean themselves, and `--model=x` has its value."""
    return word.startswith("-") and word.strip("-") != "" and "=" not in word
