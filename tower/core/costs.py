"""Money: how dollars that somebody else wrote become micro-dollars, and how a sum is shown.

Unknown is never zero: a total says when a run in it is unknown. What a run cost, and what it is charged when it
reports nothing, is `pricing`'s.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from enum import StrEnum
from typing import Final

MICROS: Final = 1_000_000
"""Micro-dollars in a dollar."""

MAX_DOLLARS: Final = 1_000_000
"""No single run costs more; a larger figure is a mistake in units, and would end every budget at once."""

_NUMBER: Final = re.compile(r"\+?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,4})?", re.ASCII)
_CENT: Final = MICROS // 100


class CostSource(StrEnum):
    """Where a figure comes from, the strongest first."""

    REPORTED = "reported"
    CREDITS = "credits"
    RATE_CARD = "rate_card"
    ASSUMED = "assumed"
    UNREPORTED = "unreported"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """What a model costs, micro-dollars per million tokens; None: as other input."""

    input: int
    output: int
    cache_read: int | None = None
    cache_write: int | None = None


def parse(dollars: object) -> int:
    """Micro-dollars from a number, or from text that is a plain decimal number, rounded to the nearest.

    Raises `ValueError`, completing "cost_usd ...", for anything else: not finite, negative, above `MAX_DOLLARS`.
    """
    if isinstance(dollars, bool) or not isinstance(dollars, int | float | str):
        raise ValueError("is no number")
    text = str(dollars).strip()
    if text.startswith("-") and _NUMBER.fullmatch(text[1:]):
        if Decimal(text) < 0:
            raise ValueError("is negative")
        text = text[1:]
    if not _NUMBER.fullmatch(text):
        raise ValueError("is no finite number")
    value = Decimal(text)
    if value > MAX_DOLLARS:
        raise ValueError(f"is more than {MAX_DOLLARS} dollars")
    return int((value * MICROS).to_integral_value(ROUND_HALF_UP))


def weakest(sources: Iterable[str]) -> CostSource | None:
    """The weakest of some sources, which is the source of their sum; None when there is none."""
    strength = list(CostSource)
    return max((CostSource(source) for source in sources), key=strength.index, default=None)


def text(total: int, sources: Iterable[str | None]) -> str:
    """A sum of micro-dollars as people read it, given the source of each run in it (None: no figure).

    `$1.20`; `$1.20+` when some run is unknown; `not reported` when all are. A sum of no run is `$0.00`.
    """
    known = [source not in (None, CostSource.UNREPORTED) for source in sources]
    if known and not any(known):
        return "not reported"
    return dollars(total) + ("" if all(known) else "+")


def dollars(micros: int) -> str:
    """`$1.20`, rounded to cents; less than a cent is shown in full, so that something never looks like nothing."""
    if 0 < micros < _CENT:
        return f"${Decimal(micros) / MICROS:.6f}".rstrip("0")
    cents = (micros + _CENT // 2) // _CENT
    return f"${cents // 100}.{cents % 100:02d}"
