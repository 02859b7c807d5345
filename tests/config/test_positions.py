from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
import tomli
from hypothesis import assume, given
from hypothesis import strategies as st

from tower.config.positions import MAX_DEPTH, KeyPath, scan

DOCUMENT = '''\
# a comment = 1
title = "x"   # another

[layover]
state_dir = ".layover"
  grace_sec = 20

[agents.coder]
"odd key" = 1
'literal.key' = 2
"esc\\u0041ped" = 3
env.NAME = "a"
prompt = """
[not.a.header]
not_a_key = 1 \\""" ""still
"""
tags = [
  "a", # one ] }
  'b', [1, {x = 2}],
]
inline = { a = 1, b.c = "}", d = ["]"] }

[agents]
late = true

[[routes]]
from = "a"
[[routes]]
from = "b"
[routes.sub]
x = 1
[[routes.deep]]
y = 1979-05-27 07:32:00
'''


@pytest.mark.parametrize(
    ("path", "place"),
    [
        (("title",), (2, 1)),
        (("layover",), (4, 2)),
        (("layover", "grace_sec"), (6, 3)),
        (("agents",), (23, 2)),
        (("agents", "late"), (24, 1)),
        (("agents", "coder"), (8, 9)),
        (("agents", "coder", "odd key"), (9, 1)),
        (("agents", "coder", "literal.key"), (10, 1)),
        (("agents", "coder", "escAped"), (11, 1)),
        (("agents", "coder", "env"), (12, 1)),
        (("agents", "coder", "env", "NAME"), (12, 5)),
        (("agents", "coder", "tags"), (17, 1)),
        (("agents", "coder", "tags", 0), (18, 3)),
        (("agents", "coder", "tags", 1), (19, 3)),
        (("agents", "coder", "tags", 2, 1, "x"), (19, 13)),
        (("agents", "coder", "inline", "b", "c"), (21, 21)),
        (("agents", "coder", "inline", "d", 0), (21, 35)),
        (("routes",), (26, 3)),
        (("routes", 0, "from"), (27, 1)),
        (("routes", 1), (28, 3)),
        (("routes", 1, "from"), (29, 1)),
        (("routes", 1, "sub", "x"), (31, 1)),
        (("routes", 1, "deep", 0, "y"), (33, 1)),
        (("routes", 1, "nothing", "here"), (28, 3)),
        (("nothing",), (1, 1)),
        (("agents", "coder", "prompt", "not_a_key"), (13, 1)),
    ],
)
def test_places_in_a_document_of_every_shape(path: KeyPath, place: tuple[int, int]) -> None:
    tomli.loads(DOCUMENT)
    assert scan(DOCUMENT).find(path) == place


def test_inline_tables_of_several_lines() -> None:
    """Newer than the rest of TOML: lines, comments and a last comma in them."""
    positions = scan('a = {\n  b = "x",  # y = 1\n  c = { d = 1,\n },\n}\ne = 2\n')
    places = [positions.find(path) for path in (("a", "b"), ("a", "c"), ("a", "c", "d"), ("e",))]
    assert places == [(2, 3), (3, 3), (3, 9), (6, 1)]
    assert ("a", "y") not in positions


def test_text_in_strings_and_comments_is_no_key() -> None:
    positions = scan(DOCUMENT)
    assert ("not",) not in positions
    assert ("agents", "coder", "not_a_key") not in positions
    assert ("a",) not in positions


@pytest.mark.parametrize(
    ("text", "second", "first"),
    [
        ("a = 1\nb = 2\n a = [\n1]\n", (3, 2), (1, 1)),
        ("[a.b]\n[a]\n[ a ]\n", (3, 3), (2, 2)),
        ("x = { a = 1, a = 2 }", (1, 14), (1, 7)),
        ("[[r]]\na = 1\n[[r]]\na = 1\n'a' = 1", (5, 1), (4, 1)),
    ],
)
def test_a_key_that_is_set_twice(text: str, second: tuple[int, int], first: tuple[int, int]) -> None:
    assert scan(text).repeat == (second, first)


# --- against tomli -----------------------------------------------------------------------------

NAMES = st.sampled_from(["a", "b", "c-d", "e_1", "7", '"q"', '"q.r"', "'l#t'", '"\\u0061"', '"\\""', '""', '"= ["'])
BLANKS = st.sampled_from(["", " ", "\t", "  "])
GAPS = st.sampled_from(["", " ", "\n", "\n  ", " # ] } , = [x]\n", "\r\n", '# """\n\n\t'])
SCALARS = st.sampled_from(
    [
        "1", "-2.5e3", "true", "inf", "0x1F", "1979-05-27", "1979-05-27 07:32:00", "07:32:00.5", "1979-05-27T07:32:00Z",
        '"plain"', '"with \\" and # and ]"', "'C:\\x'", '""', "''", '"""\n[a]\nb = 1\n"""', '"""two "" quotes"""',
        '"""ends in quotes"""""', "'''\n[[c]]\n'' = '''", "'''x''''", '"""\\\n  joined \\""" """', '"é€𝄞"', '"""""""',
    ]
)  # fmt: skip


@st.composite
def dotted(draw: st.DrawFn) -> str:
    parts = draw(st.lists(NAMES, min_size=1, max_size=3))
    return f"{draw(BLANKS)}.{draw(BLANKS)}".join(parts)


def extended(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    @st.composite
    def array(draw: st.DrawFn) -> str:
        items = draw(st.lists(values, max_size=3))
        text = "[" + draw(GAPS)
        for number, item in enumerate(items):
            last = number == len(items) - 1
            text += item + draw(GAPS) + ("" if last and draw(st.booleans()) else ",") + draw(GAPS)
        return text + "]"

    @st.composite
    def table(draw: st.DrawFn) -> str:
        pairs = draw(st.lists(st.tuples(dotted(), values), max_size=3))
        inside = ",".join(f"{draw(BLANKS)}{key}{draw(BLANKS)}={draw(BLANKS)}{value} " for key, value in pairs)
        return "{" + inside + draw(BLANKS) + "}"

    return array() | table()


VALUES = st.recursive(SCALARS, extended, max_leaves=5)
ENDS = st.sampled_from(["\n", " # tail [x] = 1\n", "\r\n", "\n\n\t\n"])


@st.composite
def documents(draw: st.DrawFn) -> str:
    text = ""
    for _ in range(draw(st.integers(0, 6))):
        kind = draw(st.sampled_from(["pair", "pair", "header", "array"]))
        key = draw(dotted())
        if kind == "pair":
            line = f"{key}{draw(BLANKS)}={draw(BLANKS)}{draw(VALUES)}"
        else:
            opening, closing = ("[", "]") if kind == "header" else ("[[", "]]")
            line = f"{opening}{draw(BLANKS)}{key}{draw(BLANKS)}{closing}"
        # A statement that does not fit what stands before it is left out, so that most documents are long.
        try:
            tomli.loads(text + line)
        except ValueError:
            continue
        text += draw(BLANKS) + line + draw(ENDS)
    return text


def paths_of(value: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    inside: list[tuple[str | int, Any]] = []
    if isinstance(value, dict):
        inside = list(value.items())
    elif isinstance(value, list):
        inside = list(enumerate(value))
    for part, held in inside:
        yield (*path, part), held
        yield from paths_of(held, (*path, part))


KEY_TOKEN = re.compile(r"""[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*'""")


@given(documents())
def test_every_path_that_tomli_has_is_found_where_its_name_stands(text: str) -> None:
    tree = tomli.loads(text)
    positions = scan(text)
    assert positions.too_deep is None
    assert positions.repeat is None
    lines = text.split("\n")
    for path, value in paths_of(tree):
        assert path in positions
        line, column = positions.find(path)
        there = "\n".join([lines[line - 1][column - 1 :], *lines[line:]])
        if isinstance(path[-1], str):
            token = KEY_TOKEN.match(there)
            assert token is not None
            assert list(tomli.loads(f"{token[0]} = 1")) == [path[-1]]
        elif isinstance(value, str):
            assert there[0] in "\"'"
        elif isinstance(value, int) and not isinstance(value, bool):
            assert there.startswith(("1", "0x1F"))


@given(documents())
def test_no_path_is_found_that_tomli_does_not_have(text: str) -> None:
    known = {path for path, _ in paths_of(tomli.loads(text))}
    assert set(scan(text)._offsets) == known


@given(documents(), st.data())
def test_a_damaged_document_still_has_places_inside_it(text: str, data: st.DataObject) -> None:
    assume(text)
    at = data.draw(st.integers(0, len(text)))
    junk = data.draw(
        st.sampled_from(['"', "'", '"""', "'''", "[", "[[", "{", "=", "\\", "\n", "#", "\x00", "]", ".", ","])
    )
    check_places(text[:at] + junk + text[at + data.draw(st.integers(0, 3)) :])


@given(st.text(alphabet=st.sampled_from("ab.=[]{}\"'\\#,\n\r\t 1é"), max_size=60) | st.text(max_size=60))
def test_any_text_has_places_inside_it(text: str) -> None:
    check_places(text)


def check_places(text: str) -> None:
    positions = scan(text)
    lines = text.split("\n")
    for path in positions._offsets:
        line, column = positions.find(path)
        assert 1 <= line <= len(lines)
        assert 1 <= column <= len(lines[line - 1]) + 1


LINES = st.sampled_from(
    ["hello = 1", "[a]", "[[a]]", "a = [", "{", "# x", '\\"', "''", '""', "\\\\", "é", "", '"', "b = 'c'"]
)


@given(st.lists(LINES), st.lists(LINES), st.booleans())
def test_a_repeat_is_found_beside_texts_that_look_like_a_document(
    before: list[str], between: list[str], literal: bool
) -> None:
    quotes = "'''" if literal else '"""'

    def text(name: str, lines: list[str]) -> list[str]:
        return [f"{name} = {quotes}", *lines, f"end {quotes}"]

    head = ["[t]", *text("one", before)]
    body = ["twice = 1", *text("two", between)]
    tomli.loads("\n".join([*head, *body]))
    first = len(head) + 1
    assert scan("\n".join([*head, *body, "twice = 2"])).repeat == ((first + len(body), 1), (first, 1))
    assert scan("\n".join([*head, *body, "[t]"])).repeat == ((first + len(body), 2), (1, 2))
    left_open = scan("\n".join([*head, *body, f"three = {quotes}", "no end"]))
    assert left_open.repeat is None
    assert left_open.unclosed == (first + len(body), 9)


# --- hostile shapes ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "[" + ".".join("a" * 100_000) + "]",
        ".".join("a" * 100_000) + " = 1",
        "a = " + "[" * 100_000,
        "a = " + "{a=" * 100_000,
        "[a.b.c.d.e.f.g.h]\n" + "i.j.k.l.m.n.o.p.q = 1",
    ],
)
def test_depth_is_noticed_before_tomli_would_choke_on_it(text: str) -> None:
    assert scan(text).too_deep is not None


def test_depth_up_to_the_bound_is_fine() -> None:
    text = ".".join("a" * MAX_DEPTH) + " = 1"
    assert scan(text).too_deep is None


@pytest.mark.parametrize(
    "piece",
    ['"', "'", '"""', "'''", "\\", 'a = """\n', "[[a]]\n", "a = [\n", '""', "#\n", "a=", '"\\', "[a", " \t\r", "''\\"],
)
def test_a_megabyte_of_anything_is_read_in_linear_time(piece: str) -> None:
    text = "a = '''\n" + piece * (1_000_000 // len(piece))
    begin = time.process_time()
    scan(text)
    scan(text[4:])
    assert time.process_time() - begin < 6
