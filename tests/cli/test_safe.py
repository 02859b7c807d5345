"""No text reaches a terminal with anything in it that acts, reorders or hides."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tower.cli import safe

ANYTHING = st.text(st.characters(exclude_categories=()))


@given(text=ANYTHING)
def test_a_block_holds_only_what_can_be_seen(text: str) -> None:
    shown = safe.block(text)
    assert all(
        character in "\n\t" or unicodedata.category(character) not in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
        for character in shown
    )
    assert shown.count("\n") == text.count("\n")


@given(text=ANYTHING)
def test_a_line_is_one_line(text: str) -> None:
    shown = safe.line(text)
    assert shown == safe.line(shown)
    assert not any(character.isspace() for character in shown.replace(" ", ""))


@pytest.mark.parametrize(
    "text",
    [
        "plain",
        "Größe, naïve, 日本語, עברית",
        "two\nlines\tand a tab",
        "no\u00a0break, \u3000wide",
        "e\u0301",
        "🙂",
        "$ \\x1b",
    ],
)
def test_honest_text_is_not_touched(text: str) -> None:
    assert safe.block(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J", "\\x1b[2J"),
        ("\x9b31m", "\\x9b31m"),
        ("a\rb", "a\\x0db"),
        ("a\r\nb", "a\nb"),
        ("\x07\x7f\x00", "\\x07\\x7f\\x00"),
        ("abc\u202egnp.exe", "abc\\u202egnp.exe"),
        ("\u200b\ufeff", "\\u200b\\ufeff"),
        ("\u2028", "\\u2028"),
        ("\U000e0041", "\\U000e0041"),
        ("\ud800", "\\ud800"),
    ],
)
def test_what_acts_is_shown_as_an_escape(text: str, shown: str) -> None:
    assert safe.block(text) == shown


def test_a_line_folds_white_space() -> None:
    assert safe.line("  a\n\n b\t\x1b ") == "a b \\x1b"
