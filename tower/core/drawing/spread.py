"""How far down each node stands: near its neighbours, in the order of its column, and never too near to another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from math import inf
from typing import Final

SWEEPS: Final = 16
"""Times that the columns are gone through in both directions."""

SETTLING: Final = 8
"""Sweeps at the end that look at both sides of each column."""

REST: Final = 0.001
"""Weight of staying where it is, for a node that nothing pulls."""

STRAIGHTENING: Final = 3
"""Rounds at the end in which long edges are made level, each of which may give room to others."""

Pulls = Mapping[str, Sequence[tuple[str, float]]]
"""Node -> its neighbours on one side, each with the weight of their edge."""


def spread(
    columns: Sequence[Sequence[str]], left: Pulls, right: Pulls, gap: Callable[[str, str], float]
) -> dict[str, float]:
    """The middle of each node, in pixels from the top edge of nothing; `gap` is the least distance of two middles."""
    middle: dict[str, float] = {}
    for column in columns:
        at = 0.0
        for index, node in enumerate(column):
            at += gap(column[index - 1], node) if index else 0.0
            middle[node] = at
    for sweep in range(SWEEPS):
        rightwards = sweep % 2 == 0
        for column in columns if rightwards else reversed(columns):
            _settle(column, middle, (left,) if rightwards else (right,), gap)
    for _ in range(SETTLING):
        for column in columns:
            _settle(column, middle, (left, right), gap)
    return middle


def straighten(
    columns: Sequence[Sequence[str]],
    chains: Sequence[Sequence[str]],
    middle: dict[str, float],
    gap: Callable[[str, str], float],
) -> None:
    """Put the slots of a chain on one level as far as their neighbours leave room for that; changes `middle`."""
    above: dict[str, str] = {}
    below: dict[str, str] = {}
    for column in columns:
        for upper, lower in pairwise(column):
            above[lower], below[upper] = upper, lower

    def room(key: str) -> tuple[float, float]:
        least = middle[above[key]] + gap(above[key], key) if key in above else -inf
        most = middle[below[key]] - gap(key, below[key]) if key in below else inf
        return least, most

    for _ in range(STRAIGHTENING):
        for chain in chains:
            for piece, least, most in _pieces(chain, room):
                level = min(max(sum(middle[key] for key in piece) / len(piece), least), most)
                middle.update(dict.fromkeys(piece, level))


def _pieces(
    chain: Sequence[str], room: Callable[[str], tuple[float, float]]
) -> Iterable[tuple[list[str], float, float]]:
    """The chain in as long pieces as have a level in common, each with the least and the most of it."""
    piece: list[str] = []
    least, most = -inf, inf
    for key in chain:
        low, high = room(key)
        if piece and max(low, least) > min(high, most):
            yield piece, least, most
            piece, least, most = [], -inf, inf
        piece.append(key)
        least, most = max(low, least), min(high, most)
    yield piece, least, most


def _settle(
    column: Sequence[str], middle: dict[str, float], sides: Sequence[Pulls], gap: Callable[[str, str], float]
) -> None:
    """Move the nodes of a column as near to where their neighbours pull them as their distances allow."""
    wishes: list[tuple[float, float]] = []
    offset, offsets = 0.0, []
    for index, node in enumerate(column):
        offset += gap(column[index - 1], node) if index else 0.0
        offsets.append(offset)
        pulls = [pull for side in sides for pull in side[node]]
        weight = sum(weight for _, weight in pulls) + REST
        wish = (sum(middle[other] * weight for other, weight in pulls) + middle[node] * REST) / weight
        wishes.append((wish - offset, weight))
    for node, offset, place in zip(column, offsets, _rising(wishes), strict=True):
        middle[node] = place + offset


def _rising(wishes: Sequence[tuple[float, float]]) -> list[float]:
    """The numbers that never fall and are nearest to the wished ones, by least squares with these weights.

    Neighbours that would fall are pooled, and stand at their common mean (isotonic regression).
    """
    pools: list[tuple[float, float, int]] = []
    for wish, weight in wishes:
        mean, total, count = wish, weight, 1
        while pools and pools[-1][0] > mean:
            other, its, many = pools.pop()
            mean = (mean * total + other * its) / (total + its)
            total, count = total + its, count + many
        pools.append((mean, total, count))
    return [mean for mean, _, count in pools for _ in range(count)]
