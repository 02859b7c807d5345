"""`@include`: which lines are one, and what a prompt comes to under the flags of a chain."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tower.core.prompts import Condition, Directive, Malformed, Passage, Prompt, pieces, trimmed


@pytest.mark.parametrize(
    ("line", "path", "when"),
    [
        ("@include a.md", "a.md", None),
        ("   @include a.md  ", "a.md", None),
        ("@include ../shared/a.md\r", "../shared/a.md", None),
        ('@include "a file.md"', "a file.md", None),
        ("@include 'a file.md'", "a file.md", None),
        ("@include(e2e) a.md", "a.md", Condition(flag="e2e")),
        ("@include(!e2e) a.md", "a.md", Condition(flag="e2e", on=False)),
        ("@include( ! _x9 )a.md", "a.md", Condition(flag="_x9", on=False)),
        ('@include(!e2e) "a file.md"', "a file.md", Condition(flag="e2e", on=False)),
    ],
)
def test_a_directive(line: str, path: str, when: Condition | None) -> None:
    assert list(pieces(f"{line}\n")) == [Directive(line=1, path=path, when=when)]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("@include", "names no file"),
        ("@include(a)", "names no file"),
        ('@include ""', "names no file"),
        ("@include a file.md", "more than one path"),
        ("@include is how it is done", "more than one path"),
        ("@include (a) b.md", "more than one path"),
        ('@include "a.md', "more than one path"),
        ("@include() a.md", "no flag between"),
        ("@include(a, b) c.md", "no flag between"),
        ("@include(!) c.md", "no flag between"),
        ("@include(a-b) c.md", "no flag between"),
        ("@include(a", "no flag between"),
    ],
)
def test_what_begins_like_a_directive_and_is_none_is_refused(line: str, why: str) -> None:
    (found,) = pieces(line)
    assert isinstance(found, Malformed)
    assert why in found.why
    assert found.hint


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("@include a.md\nx\n@include(flag) b.md\r\n@include", [1, 3, 4]),
        ("text @include a\n    @include b\n\t@include b\n@included c\n@Include d", []),
        ("```\n@include a\n```\n@include b", [4]),
        ("~~~~ md\n@include a\n~~~\n```\n@include b\n~~~~~\n@include c", [7]),
        ("```\n@include a\n``` not closing\n@include b", []),
        ("```in one line```\n@include a", [2]),
        ("    ```\n@include a", [2]),
        ("one\u2028@include a", []),
        ("", []),
    ],
)
def test_directives_are_lines_outside_of_code(text: str, lines: list[int]) -> None:
    found = list(pieces(text))
    assert [piece.line for piece in found if not isinstance(piece, str)] == lines
    kept = "".join(piece for piece in found if isinstance(piece, str))
    every = re.findall(r"[^\n]*\n|[^\n]+", text)
    assert kept == "".join(line for number, line in enumerate(every, 1) if number not in lines)


LINES = st.sampled_from(["@include a", "@include(x) b", "```", "~~~", "text", "", " @include", "\r"])


@given(st.lists(LINES, max_size=9))
def test_nothing_but_directives_is_taken_out(lines: list[str]) -> None:
    found = list(pieces("".join(f"{line}\n" for line in lines)))
    taken = {piece.line for piece in found if not isinstance(piece, str)}
    told = "".join(piece for piece in found if isinstance(piece, str))
    assert told == "".join(f"{line}\n" for number, line in enumerate(lines, 1) if number not in taken)
    assert all(lines[number - 1].strip().startswith("@include") for number in taken)


def passage(text: str, *when: str, file: str | None = None) -> Passage:
    conditions = frozenset(Condition(flag=it.lstrip("!"), on=not it.startswith("!")) for it in when)
    return Passage(text=text, when=conditions, file=file)


PROMPT = Prompt(
    passages=(
        passage("", file="/root"),
        passage("Always.\n\n", file="/root"),
        passage("Deep.\n", "deep", file="/deep"),
        passage("\nFast.\n", "!deep", "fast", file="/fast"),
        passage("\nEnd.\n", file="/root"),
    ),
    digests={"/root": "r", "/deep": "d", "/fast": "f"},
)


@pytest.mark.parametrize(
    ("flags", "text", "files"),
    [
        ({}, "Always.\n\nEnd.\n", "r"),
        ({"deep": True}, "Always.\n\nDeep.\n\nEnd.\n", "rd"),
        ({"deep": True, "fast": True}, "Always.\n\nDeep.\n\nEnd.\n", "rd"),
        ({"deep": False, "fast": True}, "Always.\n\nFast.\n\nEnd.\n", "rf"),
    ],
)
def test_a_prompt_under_flags(flags: dict[str, bool], text: str, files: str) -> None:
    assert PROMPT.text(flags) == text
    assert "".join(PROMPT.files(flags).values()) == files


def test_flags_and_names_of_a_prompt() -> None:
    assert PROMPT.flags == {"deep", "fast"}
    assert PROMPT.sha256({}) != PROMPT.sha256({"deep": True})
    assert PROMPT.sha256({}) == PROMPT.sha256({"deep": False})
    assert PROMPT.fingerprint != Prompt(passages=PROMPT.passages[:-1]).fingerprint
    swapped = Prompt(passages=(passage("Deep.", "!deep"),))
    assert swapped.fingerprint != Prompt(passages=(passage("Deep.", "deep"),)).fingerprint


def test_a_passage_that_wants_a_flag_on_and_off_is_impossible() -> None:
    assert passage("x", "a", "b").is_possible
    assert not passage("x", "a", "!a").is_possible


@given(st.lists(st.tuples(st.sampled_from(["one\n", "one\ntwo\n"]), st.booleans()), max_size=6))
def test_what_is_left_out_leaves_no_hole(blocks: list[tuple[str, bool]]) -> None:
    """Paragraphs with one blank line between them keep to that, whichever are left out."""
    parts = [part for text, flag in blocks for part in (passage(text, *(["x"] if flag else [])), passage("\n"))]
    told = trimmed(Prompt(passages=tuple(parts)).text({}))
    assert told == "\n".join(text for text, flag in blocks if not flag).rstrip("\n")


@pytest.mark.parametrize(
    ("text", "kept"), [("\n \n  a\n\nb \n\n", "  a\n\nb "), ("", ""), (" \n\t\n", ""), ("a\r\n", "a")]
)
def test_blank_lines_around_a_text_go(text: str, kept: str) -> None:
    assert trimmed(text) == kept
