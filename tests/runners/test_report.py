"""The report of a command: what is believed, and what is said of the rest."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tower.core.evidence import Reading
from tower.runners.report import MAX_CHARS, reading


def read(report: str | None) -> Reading:
    return reading("answer", report, promised=False)


@pytest.mark.parametrize(
    "report",
    [
        '{"model": "m-1", "tokens_in": 1200, "tokens_cached": 1000, "tokens_out": 34, "cost_usd": 0.0123, "more": 1}',
        "model: m-1\ntokens_in: 1200\ntokens_cached: 1000\ntokens_out: 34.0\ncost_usd: '0.0123'\n",
        "{model: m-1, tokens_in: 1200, tokens_cached: 1000, tokens_out: 34, cost_usd: 1.23e-2}",
    ],
)
def test_a_whole_report(report: str) -> None:
    assert read(report) == Reading(
        answer="answer",
        model="m-1",
        tokens_in=1200,
        tokens_cached=1000,
        tokens_out=34,
        cost=12_300,
    )


def test_unknown_is_not_zero() -> None:
    found = read("{}")
    assert (found.model, found.tokens_in, found.tokens_cached, found.tokens_out) == (None, None, None, None)
    assert (found.cost, found.credits, found.problems) == (None, None, ())


def test_zero_is_zero() -> None:
    found = read('{"cost_usd": 0, "tokens_in": 0, "credits": 0}')
    assert (found.cost, found.credits, found.tokens_in) == (0, 0, 0)


@pytest.mark.parametrize("value", ["-1", "NaN", "true", '"3"', "1e10"])
def test_credits_that_cannot_be_true_are_left_out(value: str) -> None:
    found = read(f'{{"credits": {value}, "cost_usd": 1}}')
    assert (found.cost, found.credits) == (1_000_000, None)
    assert found.problems == ("its report's credits is no number between 0 and 1000000000",)


@pytest.mark.parametrize(
    ("said", "reset_at", "retry_after"),
    [
        ({}, None, None),
        ({"reset_at": 1_800_000_000}, 1_800_000_000.0, None),
        ({"reset_at": "2027-01-15T08:00:00+00:00"}, 1_800_000_000.0, None),
        ({"reset_at": "2027-01-15T08:00:00"}, 1_800_000_000.0, None),
        ({"reset_at": "tomorrow"}, None, None),
        ({"reset_at": 1e12, "retry_after_sec": 3000}, None, 3000.0),
        ({"retry_after_sec": -1}, None, None),
        ({"retry_after_sec": True}, None, None),
    ],
)
def test_a_program_may_say_that_it_cannot_work_and_until_when(
    said: dict[str, object], reset_at: float | None, retry_after: float | None
) -> None:
    found = read(json.dumps({"unavailable": "weekly\nlimit", **said}))
    assert (found.unavailable, found.reset_at, found.retry_after) == ("weekly limit", reset_at, retry_after)


def test_a_moment_without_a_wall_says_nothing() -> None:
    assert read('{"reset_at": 1800000000, "unavailable": " "}').reset_at is None


@pytest.mark.parametrize(
    "report",
    [
        "",
        "null",
        "[]",
        "3",
        "just words",
        "{",
        "a: b: c",
        "\t- x",
        "!!python/object/apply:os.system [id]",
        "[" * 5000,
        "{" * 5000,
        '{"tokens_in": ' + "9" * 5000 + "}",
        "x" * (MAX_CHARS + 1),
        "a: 2001-99-99",
        "\x00",
    ],
)
def test_an_unreadable_report_changes_nothing_and_is_said(report: str) -> None:
    found = read(report)
    assert (found.answer, found.cost, found.tokens_in) == ("answer", None, None)
    (problem,) = found.problems
    assert problem.startswith("its report cannot be read: it is ")
    assert len(problem) < 250
    assert len(problem.splitlines()) == 1


@pytest.mark.parametrize(
    "value", ["-1", "1.5", "NaN", "Infinity", "-Infinity", "true", '"12"', "[]", "1e13", "1" + "0" * 400, "1e999"]
)
@pytest.mark.parametrize("name", ["tokens_in", "tokens_cached", "tokens_out"])
def test_a_count_that_cannot_be_true_is_left_out(name: str, value: str) -> None:
    found = read(f'{{"{name}": {value}, "model": "m", "cost_usd": 1}}')
    assert getattr(found, name) is None
    assert (found.model, found.cost) == ("m", 1_000_000)
    (problem,) = found.problems
    assert name in problem


@pytest.mark.parametrize("value", ["-1", "NaN", "Infinity", "true", '"free"', "[]", "1e13", "1" + "0" * 400])
def test_a_cost_that_cannot_be_true_is_left_out(value: str) -> None:
    found = read(f'{{"cost_usd": {value}, "tokens_in": 5}}')
    assert (found.cost, found.tokens_in) == (None, 5)
    (problem,) = found.problems
    assert problem.startswith("its report's cost_usd is ")


@pytest.mark.parametrize("value", ["1", "[]", '""', '" "'])
def test_a_model_is_text(value: str) -> None:
    found = read(f'{{"model": {value}}}')
    assert found.model is None
    assert found.problems == ("its report's model is no text",)


def test_a_model_is_one_short_line() -> None:
    model = read(json.dumps({"model": "m\n## Tower: x" + "y" * 500})).model
    assert model is not None
    assert model.startswith("m ## Tower: x")
    assert len(model) == 200


@given(st.text(max_size=200) | st.binary(max_size=200).map(lambda raw: raw.decode(errors="replace")))
def test_no_report_raises(report: str) -> None:
    found = read(report)
    assert found.answer == "answer"
    assert found.cost is None or found.cost >= 0


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from(["model", "tokens_in", "tokens_cached", "tokens_out", "cost_usd", "x"]), JSON))
def test_whatever_a_report_holds_numbers_are_sane(values: dict[str, object]) -> None:
    found = read(json.dumps(values))
    for number in (found.tokens_in, found.tokens_cached, found.tokens_out, found.cost):
        assert number is None or 0 <= number <= 10**12
