"""What Claude Code prints: recorded output of the real program, and records that lie."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tower.core.costs import MAX_DOLLARS, MICROS
from tower.core.evidence import Reading, ResultRecord
from tower.core.factory import Runner
from tower.runners import of
from tower.runners.report import MAX_TOKENS

RECORDED = Path(__file__).parents[1] / "data" / "claude-2.1.332"
RUNNER = Runner(name="mine", kind="command", output="claude", assume=7)

GOOD: dict[str, Any] = {"type": "result", "subtype": "success", "is_error": False, "result": "Done."}


def read(output: bytes | str) -> Reading:
    return of(RUNNER).read(RUNNER, output if isinstance(output, bytes) else output.encode(errors="replace"), None)


def said(**changes: Any) -> Reading:
    return read(json.dumps(GOOD | changes) + "\n")


def recorded(name: str) -> Reading:
    return read((RECORDED / f"{name}.jsonl").read_bytes())


def test_a_run_that_went_well() -> None:
    assert recorded("mcp") == Reading(
        answer="All done.",
        model="claude-sonnet-4-5",
        tokens_in=4400,
        tokens_cached=3700,
        tokens_written=0,
        tokens_out=72,
        cost=4290,
        promises_record=True,
        record=ResultRecord(ok=True),
    )


@pytest.mark.parametrize(
    ("name", "failure", "cost"),
    [
        ("maxturns", "it reached its limit of turns: Reached maximum number of turns (2)", 8460),
        ("budget", "it reached its limit of money: Reached maximum budget ($0.02)", 21_150),
        ("sigint", "it was broken off: [ede_diagnostic] result_type=user", 4230),
    ],
)
def test_a_run_that_says_that_it_failed(name: str, failure: str, cost: int) -> None:
    found = recorded(name)
    assert found.record is not None
    assert (found.record.ok, found.cost, found.unavailable) == (False, cost, None)
    assert (found.record.failure or "").startswith(failure)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("err401", "sign-in was refused (HTTP 401): Invalid API key"),
        ("usage-limit", "a limit of its provider was reached (HTTP 429): You've hit your 5-hour limit · resets 9:57pm"),
    ],
)
def test_a_wall_of_the_provider_is_no_failure_of_the_work(name: str, words: str) -> None:
    found = recorded(name)
    assert found.record is not None
    assert not found.record.ok
    assert (found.unavailable or "").startswith(words)


def test_nobody_answered() -> None:
    found = said(is_error=True, terminal_reason="api_error", api_error_status=None, result="Connection error.")
    assert found.unavailable == "its provider could not be reached: Connection error."
    assert said(is_error=True, api_error_status=400).unavailable is None


def test_without_a_record_nothing_is_known_and_the_runner_s_price_is_assumed() -> None:
    for output in ("", "plain text\n", '{"type":"assistant","result":"no"}\n', '"result"', '["result"]', "[" * 100_000):
        assert read(output) == Reading(promises_record=True)


def test_the_last_record_counts_whatever_stands_around_it() -> None:
    first, last = (json.dumps(GOOD | {"result": text}) for text in ("one", "two"))
    begun = b'o": "cut off in the middle"}\n'
    found = read(begun + f'{first}\n{last}\n{{"type": "result", "half'.encode() + b"\xff\n\x00\n")
    assert found.answer == "two"


def test_a_line_of_five_megabytes_before_it_harms_nothing() -> None:
    line = json.dumps({"type": "user", "message": "result " * 700_000})
    assert read(f"{line}\n{json.dumps(GOOD)}\n").answer == "Done."


def test_what_makes_a_success_doubtful() -> None:
    denied = said(permission_denials=[{"tool_name": "Bash"}, {"tool_name": "Edit"}, {"tool_name": "Bash"}])
    assert denied.record == ResultRecord(ok=True, doubts=("tools were denied to it (Bash, Edit)",))
    empty = said(result=" \n").record
    assert empty is not None
    assert empty.doubts == ("its answer is empty",)


@pytest.mark.parametrize("cost", ["-0.1", "NaN", "Infinity", "-Infinity", "1e300", "9" * 5000, "true", '"free"', "[]"])
def test_a_price_that_cannot_be_is_left_out_and_said(cost: str) -> None:
    found = read(json.dumps(GOOD | {"total_cost_usd": "HERE"}).replace('"HERE"', cost))
    assert (found.answer, found.cost) == ("Done.", None)
    (problem,) = found.problems
    assert problem.startswith("its result record's cost_usd ")


@pytest.mark.parametrize("count", ["-1", "NaN", "Infinity", "1.5", "9" * 5000, "true", '"many"', "{}"])
def test_a_count_that_cannot_be_is_left_out_and_said(count: str) -> None:
    text = json.dumps(GOOD | {"usage": {"input_tokens": 5, "cache_read_input_tokens": "HERE", "output_tokens": 3}})
    found = read(text.replace('"HERE"', count))
    assert (found.tokens_in, found.tokens_cached, found.tokens_out) == (None, None, 3)
    assert len(found.problems) == 2


def test_what_was_written_to_a_cache_has_a_price_of_its_own() -> None:
    found = said(usage={"input_tokens": 5, "cache_read_input_tokens": 7, "cache_creation_input_tokens": 11})
    assert (found.tokens_in, found.tokens_cached, found.tokens_written) == (23, 7, 11)


def test_of_several_models_the_one_that_wrote_most() -> None:
    used = {"big": {"outputTokens": 5}, "b": {"outputTokens": 50}, "a": {"outputTokens": 50}, "odd": 3, "no": {}}
    assert said(modelUsage=used).model == "a"
    assert said(modelUsage={"x\udc80": {"outputTokens": float("nan")}}).model == "x?"


def test_half_characters_go_no_further() -> None:
    found = said(result="\ud800 done", permission_denials=[{"tool_name": "\udfff"}])
    assert found.answer == "? done"
    assert found.record == ResultRecord(ok=True, doubts=("tools were denied to it (?)",))
    failed = said(is_error=True, result="\ud800 no").record
    assert failed == ResultRecord(ok=False, failure="its result record says error: ? no")


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
KEYS = ("usage", "modelUsage", "permission_denials", "total_cost_usd", "result", "is_error", "subtype", "errors")


@given(st.dictionaries(st.sampled_from((*KEYS, "api_error_status", "terminal_reason")), anything))
def test_whatever_a_record_holds_it_is_read_within_bounds(values: dict[str, Any]) -> None:
    found = said(**values)
    assert found.record is not None
    assert found.cost is None or 0 <= found.cost <= MAX_DOLLARS * MICROS
    for count in (found.tokens_in, found.tokens_cached, found.tokens_out):
        assert count is None or 0 <= count <= MAX_TOKENS
    for text in (found.answer, found.model, found.unavailable, found.record.failure, *found.record.doubts):
        (text or "").encode()


@given(st.binary(max_size=300))
def test_whatever_is_printed_is_read(output: bytes) -> None:
    assert read(output).promises_record
