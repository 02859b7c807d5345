"""What a run cost, by the strongest source that there is, and what stands for a cost that is not known."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tower.core.costs import CostSource, Rate
from tower.core.evidence import Reading
from tower.core.factory import Factory, Runner, Settings
from tower.core.pricing import Price, by_rate, charge, price

CARD = Rate(input=3_000_000, output=15_000_000, cache_read=300_000, cache_write=3_750_000)
FACTORY = Factory(
    path="f",
    digest="d",
    settings=Settings(state_dir="", work_dir="", socket=""),
    agents={},
    runners={},
    rates={"big": CARD, "plain": Rate(input=1_000_000, output=2_000_000)},
    per_credit=10_000,
)
SILENT, ASSUMES = Runner(name="r", kind="cmd"), Runner(name="r", kind="cmd", assume=70_000)
DEAR = Runner(name="r", kind="cmd", per_credit=40_000)
TOKENS: dict[str, Any] = {"model": "big", "tokens_in": 100_000, "tokens_out": 10_000}
"""They come to $0.45."""


@pytest.mark.parametrize(
    ("runner", "reading", "asked", "cost", "source"),
    [
        pytest.param(SILENT, {"cost": 5}, None, 5, "reported", id="reported"),
        pytest.param(SILENT, {"cost": 0}, None, 0, "reported", id="nothing, with nothing used"),
        pytest.param(SILENT, {"cost": 0, "tokens_in": 0}, None, 0, "reported", id="nothing for no tokens"),
        pytest.param(SILENT, {"cost": 9, "credits": Decimal(3)}, None, 9, "reported", id="before credits"),
        pytest.param(SILENT, {"credits": Decimal("2.5")}, None, 25_000, "credits", id="credits"),
        pytest.param(DEAR, {"credits": Decimal("2.5")}, None, 100_000, "credits", id="credits of its own price"),
        pytest.param(SILENT, {"credits": Decimal(3), **TOKENS}, None, 30_000, "credits", id="before the rate card"),
        pytest.param(ASSUMES, TOKENS, None, 450_000, "rate_card", id="rate card"),
        pytest.param(SILENT, TOKENS | {"model": None}, "big", 450_000, "rate_card", id="by the model asked for"),
        pytest.param(SILENT, TOKENS | {"model": "other"}, "big", None, "unreported", id="another model answered"),
        pytest.param(SILENT, {"model": "big", "tokens_in": 5}, None, None, "unreported", id="half of the tokens"),
        pytest.param(ASSUMES, {}, None, 70_000, "assumed", id="assumed"),
        pytest.param(SILENT, {}, None, None, "unreported", id="unknown"),
        pytest.param(ASSUMES, {"unavailable": "wall"}, None, None, "unreported", id="could not work"),
        pytest.param(SILENT, {"unavailable": "wall", **TOKENS}, None, 450_000, "rate_card", id="worked up to a wall"),
        pytest.param(SILENT, {"cost": 45_000, **TOKENS}, None, 45_000, "reported", id="ten times below is believed"),
    ],
)
def test_the_strongest_source_gives_the_price(
    runner: Runner, reading: dict[str, Any], asked: str | None, cost: int | None, source: str
) -> None:
    found = price(Reading(**reading), FACTORY, runner, asked=asked)
    assert (found.cost, found.source, found.remark) == (cost, source, None)


@pytest.mark.parametrize(
    ("reading", "at_least", "words"),
    [
        ({"cost": 0, "tokens_out": 1}, 0, "a cost of 0 beside real tokens"),
        ({"cost": 0, **TOKENS}, 450_000, "a cost of 0 beside real tokens"),
        ({"cost": 44_999, **TOKENS}, 450_000, "a cost of $0.04 is not believed, since its tokens come to $0.45"),
    ],
)
def test_what_contradicts_its_tokens_is_not_believed_and_said(
    reading: dict[str, Any], at_least: int, words: str
) -> None:
    found = price(Reading(**reading), FACTORY, ASSUMES, asked=None)
    assert (found.cost, found.source, found.at_least) == (None, CostSource.UNREPORTED, at_least)
    assert (found.remark or "").startswith(words)


@pytest.mark.parametrize(
    ("known", "worked", "charged"),
    [
        (Price(cost=7, source=CostSource.REPORTED), True, 7),
        (Price(cost=7, source=CostSource.REPORTED), False, 7),
        (Price(source=CostSource.UNREPORTED), True, 250),
        (Price(source=CostSource.UNREPORTED, at_least=900), True, 900),
        (Price(source=CostSource.UNREPORTED), False, 0),
    ],
)
def test_an_unknown_cost_is_charged_as_what_was_set_aside(known: Price, worked: bool, charged: int) -> None:
    assert charge(known, 250, worked=worked) == charged


def test_tokens_by_the_rate_card() -> None:
    cached = by_rate(CARD, tokens_in=1_000_000, tokens_cached=600_000, tokens_written=100_000, tokens_out=0)
    assert cached == 900_000 + 180_000 + 375_000
    plain = FACTORY.rates["plain"]
    assert by_rate(plain, tokens_in=10, tokens_cached=10, tokens_out=1) == 12
    assert by_rate(plain, tokens_in=1, tokens_cached=50, tokens_written=50, tokens_out=0) == 1


COUNTS = st.none() | st.integers(0, 10**9)


@given(cost=COUNTS, tokens_in=COUNTS, tokens_out=COUNTS, model=st.sampled_from(["big", "plain", "x", None]))
def test_unknown_is_never_zero_and_nothing_known_is_free(
    cost: int | None, tokens_in: int | None, tokens_out: int | None, model: str | None
) -> None:
    reading = Reading(cost=cost, tokens_in=tokens_in, tokens_out=tokens_out, model=model)
    found = price(reading, FACTORY, SILENT, asked=None)
    assert (found.cost is None) == (found.source is CostSource.UNREPORTED)
    if found.cost == 0:
        assert not tokens_in
        assert not tokens_out
    if found.cost is None:
        assert charge(found, 250_000, worked=True) >= 250_000
