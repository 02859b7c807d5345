"""Money that others wrote down, and how a sum is shown."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tower.core.costs import CostSource, dollars, parse, text, weakest


@pytest.mark.parametrize(
    ("value", "micros"),
    [
        (0, 0),
        (1, 1_000_000),
        (0.1, 100_000),
        (1.1, 1_100_000),
        (-0.0, 0),
        ("0.000001", 1),
        ("0.0000005", 1),
        ("0.0000004", 0),
        (1e-7, 0),
        ("1.20", 1_200_000),
        (" +1.5 ", 1_500_000),
        ("1e2", 100_000_000),
        (".5", 500_000),
        ("5.", 5_000_000),
        (1_000_000, 10**12),
    ],
)
def test_what_is_read(value: object, micros: int) -> None:
    assert parse(value) == micros


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        [],
        {},
        b"1",
        "",
        "free",
        "$1.20",
        "1,20",
        "1_000",
        "0x10",
        "١",
        "nan",
        "Infinity",
        float("nan"),
        float("inf"),
        float("-inf"),
        -0.01,
        "-1",
        -1,
        1_000_000.01,
        10**400,
        "1e9999",
        "1e99999",
    ],
)
def test_what_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"^is (no|negative|more)"):
        parse(value)


@given(st.decimals(0, 1_000_000, places=6))
def test_nothing_is_lost_to_floats(value: Decimal) -> None:
    assert parse(str(value)) == int(value * 1_000_000)
    assert parse(float(value)) == int(value * 1_000_000)


@pytest.mark.parametrize(
    ("micros", "shown"),
    [
        (0, "$0.00"),
        (1, "$0.000001"),
        (400, "$0.0004"),
        (9_999, "$0.009999"),
        (10_000, "$0.01"),
        (14_999, "$0.01"),
        (15_000, "$0.02"),
        (1_200_000, "$1.20"),
        (1_999_999_999, "$2000.00"),
    ],
)
def test_dollars(micros: int, shown: str) -> None:
    assert dollars(micros) == shown


@pytest.mark.parametrize(
    ("sources", "shown"),
    [
        ([], "$1.20"),
        (["reported"], "$1.20"),
        (["reported", "assumed"], "$1.20"),
        (["reported", None], "$1.20+"),
        (["reported", "unreported"], "$1.20+"),
        ([None], "not reported"),
        (["unreported", None], "not reported"),
    ],
)
def test_a_sum_says_what_it_does_not_know(sources: list[str | None], shown: str) -> None:
    assert text(1_200_000, sources) == shown


@given(st.integers(1, 10**12))
def test_something_never_looks_like_nothing(micros: int) -> None:
    assert dollars(micros).strip("$0.") != ""


@given(st.lists(st.sampled_from(list(CostSource)), min_size=1))
def test_a_sum_is_as_good_as_its_weakest_part(sources: list[CostSource]) -> None:
    order = ["reported", "credits", "rate_card", "assumed", "unreported"]
    assert weakest(sources) == max(sources, key=lambda source: order.index(source))


def test_no_source_at_all() -> None:
    assert weakest([]) is None
