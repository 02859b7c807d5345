"""Circuits: how long one stays open, who may try it, and what closes it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tower.core.circuit import LONGEST_SEC, Circuit, ended, failed
from tower.core.states import Outcome

NOW = 1_000_000.0
OPEN = Circuit(runner="r", reason="wall", opened_at=NOW - 90, until=NOW - 30)


def fails(before: Circuit | None, *, run: str = "run_2", reset_at: float | None = None) -> Circuit:
    return failed(before, runner="r", run=run, reason="quota", now=NOW, reset_at=reset_at, jitter=1.0)


def test_the_first_failure_opens_it_for_a_minute() -> None:
    found = fails(None)
    assert (found.opened_at, found.until, found.failures, found.probe) == (NOW, NOW + 60, 1, None)
    assert found.is_open(NOW + 59.9)
    assert not found.is_open(NOW + 60)


@pytest.mark.parametrize(
    ("failures", "pause"), [(1, 120), (2, 240), (3, 480), (4, 960), (5, 1800), (6, 1800), (99, 1800)]
)
def test_pauses_grow_with_each_try(failures: int, pause: float) -> None:
    found = fails(replace(OPEN, failures=failures, probe="run_2"))
    assert (found.until - NOW, found.failures, found.opened_at) == (pause, failures + 1, OPEN.opened_at)
    assert found.probe is None


@pytest.mark.parametrize(
    ("named", "until"),
    [
        (NOW + 3000, NOW + 3000),
        (NOW + 7 * 86400, NOW + 7 * 86400),
        (NOW + 400 * 86400, NOW + LONGEST_SEC),
        (NOW - 5, NOW + 60),
        (NOW, NOW + 60),
    ],
)
def test_the_moment_that_the_program_named_counts(named: float, until: float) -> None:
    assert fails(None, reset_at=named).until == until


def test_runs_that_were_under_way_when_it_opened_say_nothing_new() -> None:
    before = replace(OPEN, until=NOW + 30)
    assert fails(before) == before
    assert fails(before, reset_at=NOW + 10) == before
    assert fails(before, reset_at=NOW + 90) == replace(before, until=NOW + 90)


@pytest.mark.parametrize("outcome", list(Outcome))
def test_only_the_run_that_tries_it_closes_it_and_only_when_its_program_worked(outcome: Outcome) -> None:
    probed = replace(OPEN, probe="run_2")
    assert ended(None, run="run_2", outcome=outcome) is None
    assert ended(probed, run="run_1", outcome=outcome) == probed
    closes = outcome in ("succeeded", "suspect", "failed", "invalid_answer", "timed_out")
    assert ended(probed, run="run_2", outcome=outcome) == (None if closes else OPEN)


def test_its_words_say_what_ends_it() -> None:
    assert "`tower runners reset r`" in OPEN.words()
