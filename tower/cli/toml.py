"""Documents of the configuration as TOML, each value with a comment that says where it came from.

The standard library reads TOML and does not write it, and no comment survives the libraries that do.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

COMMENTS: Final = 44
"""Column at which comments begin, where the value leaves room."""

NAMED: Final = frozenset({"runners", "agents", "pipelines", "rates"})
"""Tables of tables, by name."""

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_UNWRITABLE: Final = re.compile("[\x7f-\x9f\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff]")


def text(document: Mapping[str, Any]) -> str:
    """Tables in their order, as lines; what is not set is a comment."""
    lines: list[str] = []
    for name, value in document.items():
        if isinstance(value, list):
            for entry in value:
                lines += ["", f"[[{name}]]", *_pairs(entry)]
        elif name in NAMED:
            for key, table in value.items():
                lines += ["", f"[{name}.{_key(key)}]", *_pairs(table)]
        elif isinstance(value, Mapping):
            lines += ["", f"[{name}]", *_pairs(value)]
    return "\n".join(lines[1:])


def _pairs(table: Mapping[str, Any]) -> Iterable[str]:
    for key, entry in table.items():
        has_origin = isinstance(entry, Mapping) and entry.keys() == {"value", "origin"}
        value, origin = (entry["value"], entry["origin"]) if has_origin else (entry, "")
        line = f"# {_key(key)} is not set" if value is None else f"{_key(key)} = {_value(value)}"
        yield f"{line:{COMMENTS}}  # {_seen(' '.join(origin.split()))}" if origin else line


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, Mapping):
        inner = ", ".join(f"{_key(key)} = {_value(one)}" for key, one in value.items() if one is not None)
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, float) and value.is_integer():
        return f"{value:.0f}"
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    return str(value)


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _quoted(key)


def _quoted(value: str) -> str:
    """A basic string; what a terminal would obey or hide is escaped."""
    return _seen(json.dumps(value, ensure_ascii=False))


def _seen(value: str) -> str:
    return _UNWRITABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", value)
