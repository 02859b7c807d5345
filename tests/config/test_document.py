from __future__ import annotations

import time

import pytest

from .conftest import GOOD, Loads


@pytest.mark.parametrize(
    ("text", "place", "sentence", "hint"),
    [
        ("a = hello\n", (1, 5), "is not TOML: invalid value", "in quotes"),
        ("[layover]\n\ngrace_sec 20\n", (3, 11), "expected '='", "key = value"),
        ("[layover\ngrace_sec = 20\n", (1, 9), "expected ']'", "bracket"),
        ("a = 1 b = 2\n", (1, 7), "expected newline", "line of its own"),
        ('a = "x\nb = 1\n', (1, 5), 'opens here has no closing "', "several lines"),
        ("a = 'x\nb = 1\n", (1, 5), "opens here has no closing '", "several lines"),
        ('a = "x\x07"\n', (1, 7), "illegal character", "as an escape"),
        ('[a]\nb = """\nc = 1\n[d]\ne = 2\n', (2, 5), 'opens here has no closing """', 'write """ where'),
        (
            "[a]\nb = '''\nc = 1\n[d]\ne = '''\nf g\n'''\n",
            (2, 5),
            "opens here has no closing '''",
            "where the text ends",
        ),
        ('a = ["x", "y]\n', (1, 11), "opens here has no closing", "where the text ends"),
        ('a = """x\\y"\n', (1, 11), "unescaped '\\'", "single quotes"),
        ('a = "C:\\x"\n', (1, 10), "invalid hex value", "single quotes"),
        ("[agents.a]\nrunner = \n", (2, 10), "invalid value", "in quotes"),
        ("[agents.a]\nrunner = 'no", (2, 10), "opens here has no closing '", "several lines"),
        ("[agents.a]\nprompt = '''\nhalf", (2, 10), "opens here has no closing '''", "where the text ends"),
        ("x = [1,\n2\n", (2, 2), "unclosed array", "bracket"),
        (
            "[agents.a]\nentry = true\n\n[agents.b]\n[agents.a]\n",
            (5, 9),
            "the name is set twice",
            "line 1 sets it first",
        ),
        ("[layover]\nsocket = 'a'\nsocket = '''\nb\n'''\n", (3, 1), "the name is set twice", "line 2 sets it first"),
        ("a.b = 1\na = 2\n", (2, 6), "cannot overwrite a value", "in use already"),
        ("a.b = 1\na = 2\nc = 1\nc = 2\n", (2, 6), "cannot overwrite a value", "in use already"),
        ('[a]\nb = """\nc = 1\nc = 2\n"""\nd = 1\nd = 2\n', (7, 1), "the name is set twice", "line 6 sets it first"),
        ("a = { b = 1, b = 2 }", (1, 14), "the name is set twice", "line 1"),
        ("a." * 20 + "a = 1", (1, 33), "nests deeper than 16 levels", "no key"),
    ],
)
def test_a_syntax_error_is_pointed_at(
    loads: Loads, text: str, place: tuple[int, int], sentence: str, hint: str
) -> None:
    (problem,) = loads(text).problems
    assert (problem.line, problem.column) == place
    assert sentence in problem.sentence
    assert hint in problem.hint


def test_a_number_with_more_digits_than_python_reads_is_a_problem(loads: Loads) -> None:
    (problem,) = loads("a = 1" + "0" * 5000).problems
    assert problem.sentence.startswith("is not TOML: ")


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment\n", "\ufeff"])
def test_an_empty_file_says_how_to_begin(loads: Loads, text: str) -> None:
    (problem,) = loads(text).problems
    assert (problem.line, problem.sentence) == (0, "declares nothing")
    assert "`tower init`" in problem.hint


def test_a_byte_order_mark_and_windows_line_ends_are_read(loads: Loads) -> None:
    assert loads("\ufeff" + GOOD.replace("\n", "\r\n")).problems == ()


@pytest.mark.parametrize(
    "text", ["[" * 900_000, "a." * 400_000 + "a=1", "a=" + "{b=" * 300_000, "[[a]]\n" * 150_000, "'''" + "x" * 900_000]
)
def test_a_megabyte_of_malice_is_answered_in_seconds(loads: Loads, text: str) -> None:
    begin = time.process_time()
    assert loads(text).factory is None
    assert time.process_time() - begin < 8


def test_what_lies_too_deep_is_said_beside_what_it_is(loads: Loads) -> None:
    found = loads(GOOD + "[" + "a." * 9 + "a]\n" + "b." * 9 + "b = 1\n[agents.other]\nmax_pending = 0\n").problems
    assert ("a", "is not a known key") in [(it.key, it.sentence) for it in found]
    assert [(it.line, it.column) for it in found if "nests deeper than 16 levels" in it.sentence] == [(7, 21)]
