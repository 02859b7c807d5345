"""What is set aside for a run, when the Reserve has room again, and when a person is told of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tower.core.budget import SLACK, Window, estimate, marks
from tower.core.factory import Agent, Settings
from tower.core.prompts import Prompt

AGENT = Agent(name="a", runner="r", instructions=Prompt.of("work"), work_dir="")
SETTINGS = Settings(state_dir="", work_dir="", socket="", reserve=250_000)
AMOUNTS = st.lists(st.integers(0, 10**9), min_size=1, max_size=20)


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        ([], 250_000),
        ([7], 7),
        ([9, 1], 9),
        (list(range(1, 11)), 9),
        (list(range(20, 0, -1)), 18),
        ([0] * 20, 0),
        ([5] * 18 + [100, 100], 5),
        ([5] * 17 + [100, 100, 100], 100),
    ],
)
def test_nine_in_ten_of_an_agent_s_last_runs_cost_no_more(history: list[int], expected: int) -> None:
    assert estimate(AGENT, SETTINGS, history) == expected
    assert estimate(replace(AGENT, reserve=3), SETTINGS, history) == 3
    assert estimate(replace(AGENT, reserve=0), SETTINGS, history) == 0


@given(AMOUNTS)
def test_an_estimate_is_a_cost_that_was_and_covers_nine_in_ten(history: list[int]) -> None:
    found = estimate(AGENT, SETTINGS, history)
    assert found in history
    assert sum(cost <= found for cost in history) * 10 >= len(history) * 9


LEAVES = ((10.0, 4), (20.0, 3), (30.0, 3))


@pytest.mark.parametrize(
    ("limit", "wanted", "at"),
    [(12, 2, None), (12, 3, 10.0), (12, 6, 10.0), (12, 7, 20.0), (12, 10, 30.0), (12, 12, 30.0), (12, 13, None)],
)
def test_when_enough_has_left_the_window(limit: int, wanted: int, at: float | None) -> None:
    assert Window(spent=10, leaves=LEAVES).frees_at(limit, wanted) == at


def test_what_runs_have_set_aside_leaves_with_nobody_knows_which_moment() -> None:
    assert Window(spent=10, reserved=5, leaves=LEAVES).frees_at(12, 1) == 10.0
    assert Window(spent=10, reserved=12, leaves=LEAVES).frees_at(12, 1) is None


@given(entries=AMOUNTS, reserved=st.integers(0, 10**9), limit=st.integers(1, 10**10), wanted=st.integers(1, 10**9))
def test_at_that_moment_it_fits_and_not_before(entries: list[int], reserved: int, limit: int, wanted: int) -> None:
    leaves = [(float(at), amount) for at, amount in enumerate(entries)]
    window = Window(spent=sum(entries), reserved=reserved, leaves=leaves)
    at = window.frees_at(limit, wanted)

    def left(moment: float) -> int:
        return window.total - sum(amount for gone, amount in leaves if gone <= moment)

    if at is not None:
        assert left(at) + wanted <= limit
        assert left(at - 1) + wanted > limit
    elif window.total + wanted > limit:
        assert left(float(len(entries))) + wanted > limit


def test_people_are_told_at_each_mark_once() -> None:
    assert marks(1000, 799, set(), bites=False) == set()
    assert marks(1000, 800, set(), bites=False) == {80}
    assert marks(1000, 1000, {80}, bites=False) == {80, 100}
    # What is set aside comes and goes, and nobody wants to hear of each time.
    assert marks(1000, 700 + SLACK, {80}, bites=False) == {80}
    assert marks(1000, 699, {80}, bites=False) == set()
    assert marks(1000, 600, set(), bites=True) == {80, 100}
    assert marks(0, 10**9, {80}, bites=False) == set()
