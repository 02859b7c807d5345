"""Placeholders in commands and in the operator's text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tower.core.placeholders import fill, fill_command, unknown_names

VALUES = {"model": None, "name": "coder", "prompt": "/run/payload.md", "effort": "high", "context": None}


@pytest.mark.parametrize(
    ("command", "argv"),
    [
        (["x", "--model", "{model}", "-"], ("x", "-")),
        (["x", "-m", "{model}"], ("x",)),
        (["x", "--model={model}", "y"], ("x", "y")),
        (["x", "{model}", "y"], ("x", "y")),
        (["x", "-", "{model}"], ("x", "-")),
        (["x", "--", "{model}"], ("x", "--")),
        (["x", "--a=b", "{model}"], ("x", "--a=b")),
        (["x", "--both", "{name}/{model}"], ("x",)),
        (["x", "--pair", "{model}", "{context}", "z"], ("x", "z")),
        (["x", "--a", "{model}", "--b", "{context}", "--c", "{effort}"], ("x", "--c", "high")),
        (["{model}"], ()),
        (["x", "--name", "{name}", "{model}"], ("x", "--name", "coder")),
        (["x", "--file", "{prompt}"], ("x", "--file", "/run/payload.md")),
        (["x", "{unknown}", "{}", "{ model }", "{{name}}"], ("x", "{unknown}", "{}", "{ model }", "{coder}")),
    ],
)
def test_an_unset_word_goes_with_its_option(command: list[str], argv: tuple[str, ...]) -> None:
    assert fill_command(command, [], VALUES) == argv


@pytest.mark.parametrize(
    ("command", "args", "argv"),
    [
        (["x"], ["-v", "a b"], ("x", "-v", "a b")),
        (["x", "{args}", "-"], ["-v", "1"], ("x", "-v", "1", "-")),
        (["x", "--flag", "{args}", "-"], [], ("x", "--flag", "-")),
        (["x"], ["--model", "{model}"], ("x",)),
        (["x"], ["--who", "{name}"], ("x", "--who", "coder")),
    ],
)
def test_where_arguments_go(command: list[str], args: list[str], argv: tuple[str, ...]) -> None:
    assert fill_command(command, args, VALUES) == argv


def test_a_value_is_never_read_for_placeholders() -> None:
    assert fill("{a} {b}", {"a": "{b}", "b": "{a}"}) == "{b} {a}"
    assert fill_command(["{name}"], [], {"name": "{model}", "model": None}) == ("{model}",)


@given(st.text(max_size=100))
def test_text_without_known_names_stays(text: str) -> None:
    assert fill(text, {}) == text


def test_unknown_names_are_found() -> None:
    assert unknown_names(["{modle}", "a{model}b", "{x}{x}", "{}", "{ y }"]) == ("modle", "x")
