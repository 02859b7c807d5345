"""Rows of the table, and how two series of figures that were taken in turns become one ratio."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

HEAD: Final = "| what | ours | reference | ratio | to reach | reached |\n| --- | --- | --- | --- | --- | --- |"
NOTHING: Final = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table, in words. `reached` is None where there is no figure to reach."""

    what: str
    ours: str
    reference: str = NOTHING
    ratio: str = NOTHING
    reach: str = NOTHING
    reached: bool | None = None


def line(row: Row) -> str:
    """The row in Markdown."""
    word = NOTHING if row.reached is None else "yes" if row.reached else "no"
    return f"| {row.what} | {row.ours} | {row.reference} | {row.ratio} | {row.reach} | {word} |"


def figure(number: float, unit: str) -> str:
    """Three digits are as many as a shared machine can repeat."""
    return f"{number:.0f} {unit}" if number >= 100 else f"{number:.3g} {unit}"


def compared(
    what: str,
    ours: Sequence[float],
    theirs: Sequence[float],
    *,
    unit: str,
    reference: str,
    at_least: float | None = None,
    at_most: float | None = None,
) -> Row:
    """Both medians, and the median of the ratios ours / theirs: the figures of one round stand at the same place."""
    ratio = statistics.median(one / other for one, other in zip(ours, theirs, strict=True))
    row = Row(
        what=what,
        ours=figure(statistics.median(ours), unit),
        reference=f"{reference}: {figure(statistics.median(theirs), unit)}",
        ratio=f"{ratio:.2f} x",
    )
    if at_least is not None:
        return replace(row, reach=f"at least {at_least:g} x", reached=ratio >= at_least)
    if at_most is not None:
        return replace(row, reach=f"at most {at_most:g} x", reached=ratio <= at_most)
    return row


def bounded(what: str, ours: float, *, unit: str, under: float, reference: str = NOTHING) -> Row:
    """A figure that stands for itself."""
    return Row(
        what=what,
        ours=figure(ours, unit),
        reference=reference,
        reach=f"under {under:g} {unit}",
        reached=ours < under,
    )
