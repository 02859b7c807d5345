"""What a run cost, from whatever is known of it, and what is charged for one that says nothing.

The strongest source that there is gives the price: dollars that the program named, units with a configured price,
tokens by the rate card, what the runner's configuration assumes. A figure that contradicts the tokens beside it is not
believed. Unknown is None, never 0. Who pays is left to the engine.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from typing import Final

from tower.core.costs import MICROS, CostSource, Rate, dollars
from tower.core.evidence import Reading
from tower.core.factory import Factory, Runner

TOO_LOW: Final = 10
"""A reported figure so many times below the rate card's is a mistake: no discount is that large."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What a run cost. `cost` is micro-dollars, None when it is unknown."""

    source: CostSource
    cost: int | None = None
    at_least: int = 0
    """What the tokens of an unknown cost come to by the rate card, micro-dollars."""
    remark: str | None = None
    """Why a figure was not believed, for the run's notes."""


def price(reading: Reading, factory: Factory, runner: Runner, *, asked: str | None) -> Price:
    """The price of a run by its reading; `asked` is the model that was asked for, where none is known to have answered.

    A program that could not work at all and names no use is not taken for one that used what the runner assumes.
    """
    card = _by_card(reading, factory, asked)
    if reading.cost is not None:
        remark = _disbelief(reading, card)
        if remark is None:
            return Price(cost=reading.cost, source=CostSource.REPORTED)
        return Price(source=CostSource.UNREPORTED, at_least=card or 0, remark=remark)
    if reading.credits is not None:
        per_credit = factory.per_credit if runner.per_credit is None else runner.per_credit
        return Price(cost=_rounded(reading.credits * per_credit), source=CostSource.CREDITS)
    if card is not None:
        return Price(cost=card, source=CostSource.RATE_CARD)
    if runner.assume is not None and reading.unavailable is None:
        return Price(cost=runner.assume, source=CostSource.ASSUMED)
    return Price(source=CostSource.UNREPORTED)


def charge(known: Price, reserved: int, *, worked: bool) -> int:
    """What the end of a run takes from Fuel and Reserve, micro-dollars.

    An unknown cost is charged as what was set aside for it (`reserved`), and never as less than its tokens come to.
    A program that could not work (`worked` is False) is charged what it is known to have used.
    """
    if known.cost is not None:
        return known.cost
    return max(reserved, known.at_least) if worked else known.at_least


def by_rate(rate: Rate, *, tokens_in: int, tokens_out: int, tokens_cached: int = 0, tokens_written: int = 0) -> int:
    """Micro-dollars of some tokens; those read from and written to a cache are among `tokens_in`."""
    cached = min(tokens_cached, tokens_in)
    written = min(tokens_written, tokens_in - cached)
    cache_read = rate.input if rate.cache_read is None else rate.cache_read
    cache_write = rate.input if rate.cache_write is None else rate.cache_write
    read = (tokens_in - cached - written) * rate.input + cached * cache_read + written * cache_write
    return _rounded(Decimal(read + tokens_out * rate.output) / MICROS)


def _by_card(reading: Reading, factory: Factory, asked: str | None) -> int | None:
    rate = factory.rates.get(reading.model or asked or "")
    if rate is None or reading.tokens_in is None or reading.tokens_out is None:
        return None
    return by_rate(
        rate,
        tokens_in=reading.tokens_in,
        tokens_out=reading.tokens_out,
        tokens_cached=reading.tokens_cached or 0,
        tokens_written=reading.tokens_written or 0,
    )


def _disbelief(reading: Reading, card: int | None) -> str | None:
    said = reading.cost or 0
    if said == 0 and any((reading.tokens_in, reading.tokens_out)):
        # Programs without a price list say 0; believing it would make the work look free.
        return "a cost of 0 beside real tokens is not believed: it counts as not reported"
    if card is not None and said * TOO_LOW < card:
        return (
            f"a cost of {dollars(said)} is not believed, since its tokens come to {dollars(card)} by [rates]:"
            " it counts as not reported"
        )
    return None


def _rounded(micros: Decimal) -> int:
    return int(micros.to_integral_value(ROUND_HALF_UP))
