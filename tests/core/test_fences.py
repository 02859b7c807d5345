"""Quotations that cannot be left, and lines that pass for the tower's headings."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tower.core.fences import INDENT, fence, heading, indent_headings, inline, looks_like_heading, tail

NASTY = st.text(alphabet=st.sampled_from("`~#> \n\r\t\u2028T:ower*_-Towér\u200b"), max_size=80) | st.text(max_size=200)


@pytest.mark.parametrize(
    "line",
    [
        heading("your memory"),
        "# Tower: x",
        "###Tower:x",
        "   ## tower : x",
        "Tower:",
        "TOWER: who sent this",
        "> ## Tower: x",
        "**Tower:** x",
        "## **Tower**: x",
        "- Tower: x",
        "```Tower: x",
        "~~~ Tower: x",
        "\u200b## Tower: x",
        "## T\u200bower: x",
        "## Tower\ufe0f: x",
        "＃＃ Ｔｏｗｅｒ： x",
        "\u00a0\u00a0## Tower: x",
        "## 𝐓𝐨𝐰𝐞𝐫: x",
        "\x00## Tower: x",
        "\x1b## Tower: x",
    ],
)
def test_look_alikes_are_indented(line: str) -> None:
    assert looks_like_heading(line)
    assert indent_headings(f"before\n{line}\nafter") == f"before\n{INDENT}{line}\nafter"


@pytest.mark.parametrize(
    "line",
    [
        "",
        "## Memory",
        "The Tower: a story",
        "Towering: x",
        "towers",
        "    ## Tower: x",
        "\t## Tower: x",
        "#",
        "Tower",
        "x",
    ],
)
def test_ordinary_lines_stay(line: str) -> None:
    assert not looks_like_heading(line)
    assert indent_headings(line) == line


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "\v", "\f", "\x1c", "\x85", "\u2028", "\u2029"])
def test_every_line_end_counts(end: str) -> None:
    assert indent_headings(f"a{end}## Tower: x") == f"a{end}{INDENT}## Tower: x"


@given(NASTY)
def test_indenting_twice_changes_nothing(text: str) -> None:
    once = indent_headings(text)
    assert indent_headings(once) == once
    assert not any(looks_like_heading(line) for line in once.splitlines())


@given(NASTY)
def test_nothing_inside_closes_the_fence(text: str) -> None:
    opening, *inside, closing = re.split(r"[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]", fence(text))
    assert opening == closing
    assert set(opening) == {"`"}
    assert len(opening) >= 3
    assert not any(opening in line or "~" * len(opening) in line for line in inside)


@given(NASTY)
def test_a_quotation_holds_all_of_the_text(text: str) -> None:
    inside = "".join(fence(text).splitlines(keepends=True)[1:-1]) if text.strip("\r\n") else ""
    assert inside.replace(INDENT, "").split() == text.replace(INDENT, "").split()


@given(st.binary(max_size=60), st.integers(0, 70))
def test_a_tail_of_any_bytes_is_text(raw: bytes, limit: int) -> None:
    text = tail(raw, limit)
    text.encode()
    if limit >= len(raw):
        assert text == raw.decode(errors="replace")


@given(st.text(max_size=40), st.integers(0, 200))
def test_a_tail_begins_with_a_whole_character(text: str, limit: int) -> None:
    kept = tail(text.encode(), limit)
    assert text.endswith(kept)
    assert len(kept.encode()) <= limit
    longer = text[len(text) - len(kept) - 1 :] if kept != text else ""
    assert not longer or len(longer.encode()) > limit


@given(st.text(alphabet=st.characters(), max_size=80), st.integers(1, 40))
def test_a_line_is_one_line(text: str, limit: int) -> None:
    line = inline(text, limit)
    assert len(line.splitlines()) <= 1
    assert len(line) <= limit
    line.encode()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a\n\n b\tc ", "a b c"),
        ("a\x1b[1mb\x00", "a\ufffd[1mb\ufffd"),
        ("abcdefghijk", "abcdefghi…"),
        ("abcdefghij", "abcdefghij"),
        ("x\u202egpj", "x\ufffdgpj"),
        ("na\udcffme", "na\ufffdme"),
    ],
)
def test_what_a_line_loses(text: str, line: str) -> None:
    assert inline(text, 10) == line
