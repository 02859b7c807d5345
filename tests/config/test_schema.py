# ruff: noqa: E501  (a case reads best on one line)
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tower.config.schema import AgentTable
from tower.config.values import LONGEST_SEC, UNIT_SEC, RefusedValueError, seconds
from tower.config.ways import RouteTable

from .conftest import GOOD, Loads


@pytest.mark.parametrize(
    ("text", "value"),
    [("30s", 30.0), ("15m", 900.0), ("2h", 7200.0), ("3d", 259200.0), (" 1.5 h ", 5400.0), ("0s", 0.0)],
)
def test_a_duration_in_words(text: str, value: float) -> None:
    assert seconds(text) == value


@pytest.mark.parametrize(
    "text", ["", "5", "m", "-5m", "+5m", "5 min", "1h30m", "5M", "٣m", "1e3s", "nan", "1.s", "9" * 99 + "s"]
)
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(RefusedValueError):
        seconds(text)


@given(st.integers(1, 30), st.sampled_from("smhd"))
def test_a_duration_is_its_number_times_its_unit(number: int, unit: str) -> None:
    assert seconds(f"{number}{unit}") == number * UNIT_SEC[unit] <= LONGEST_SEC


@pytest.mark.parametrize("value", [1, 1.5, True, None, [1]])
def test_what_is_no_text_is_left_to_the_type(value: object) -> None:
    assert seconds(value) is value


@pytest.mark.parametrize(
    "line", ["timeout_sec = '30d'", "timeout_sec = 0.001", "linger_sec = 0", "orphan_sec = 0", "max_recovery_attempts = 0",
             "memory_bytes = 0", "max_pending = 100000", "max_concurrent = 1", "context_budget = 1000000000", "recover_on = []"],
)  # fmt: skip
def test_bounds_are_included(loads: Loads, line: str) -> None:
    assert loads(f"{GOOD}{line}\n").problems == ()


def test_an_explicit_none() -> None:
    agent = AgentTable.model_validate({"model": "", "persona": " ", "stall_sec": "", "effort": "", "args": []})
    assert agent.model_dump(exclude_unset=True) == {
        "model": None, "persona": None, "stall_sec": None, "effort": None, "args": (),
    }  # fmt: skip


def test_an_end_of_a_route_is_a_name_or_a_list() -> None:
    route = RouteTable.model_validate({"from": "a", "to": ["b", "c"]})
    assert (route.senders, route.receivers) == (("a",), ("b", "c"))
