"""TOML that we write is TOML that says the same, on lines that a terminal shows as they are."""

from __future__ import annotations

import tomllib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tower.cli import toml

texts = st.text(st.characters(exclude_categories=["Cs"]))
values = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(texts, values, max_size=4), texts)
def test_what_is_written_reads_as_what_it_was(table: dict[str, Any], name: str) -> None:
    written = toml.text({"layover": table, "agents": {name: table}, "routes": [table, table]})
    read = tomllib.loads(written)
    assert read == {"layover": table, "agents": {name: table}, "routes": [table, table]}
    assert not set(written) & set("\x1b\x7f\u202e\u2066\u200b\u2028\r")


def test_origins_are_comments_and_what_is_not_set_is_one_too() -> None:
    written = toml.text(
        {
            "path": "/f",
            "layover": {
                "grace_sec": {"value": 5.0, "origin": "file"},
                "umask": {"value": None, "origin": "built in\nx = 1"},
                "plain": None,
            },
            "defaults": {},
        }
    )
    assert written.splitlines() == [
        "[layover]",
        f"{'grace_sec = 5':44}  # file",
        f"{'# umask is not set':44}  # built in x = 1",
        "# plain is not set",
        "",
        "[defaults]",
    ]
