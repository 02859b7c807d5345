"""The order of the nodes in each column, with as few crossings as some sweeps of barycentres and exchanges find."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final

SWEEPS: Final = 24
"""Times that the columns are gone through, forth and back; later ones find nothing in graphs of a sensible size."""

EXCHANGES: Final = 8
"""Rounds of exchanging neighbours after the sweeps."""

Links = Mapping[str, Sequence[str]]
Columns = list[list[str]]


def ordered(columns: Sequence[Sequence[str]], after: Links, before: Links) -> Columns:
    """The same nodes in each column, in an order with few crossings.

    `after` and `before` have the neighbours of each node in the next and the last column. The given order decides
    where nothing else does.
    """
    now = [list(column) for column in columns]
    best, fewest = now, crossings(now, after)
    for sweep in range(SWEEPS):
        if not fewest:
            return best
        now = _swept(now, after if sweep % 2 else before, leftwards=bool(sweep % 2))
        if sweep % 4 >= 2:  # Every other pair of sweeps starts from exchanged neighbours, so that ties are broken.
            now = _exchanged(now, after, before, rounds=1)
        found = crossings(now, after)
        if found < fewest:
            best, fewest = [list(column) for column in now], found
    return _exchanged(best, after, before, rounds=EXCHANGES)


def crossings(columns: Sequence[Sequence[str]], after: Links) -> int:
    """How often two edges cross, between all neighbouring columns."""
    total = 0
    for left, right in pairwise(columns):
        place = {node: index for index, node in enumerate(right)}
        ends = [end for node in left for end in sorted(place[other] for other in after[node])]
        total += _inversions(ends, len(right))
    return total


def _inversions(numbers: Iterable[int], bound: int) -> int:
    """Pairs that stand the wrong way round, counted with a tree of partial sums."""
    tree = [0] * (bound + 1)
    total = 0
    for count, number in enumerate(numbers):
        smaller, index = 0, number + 1
        while index:
            smaller += tree[index]
            index &= index - 1
        total += count - smaller
        index = number + 1
        while index <= bound:
            tree[index] += 1
            index += index & -index
    return total


def _swept(columns: Columns, links: Links, *, leftwards: bool) -> Columns:
    """Each column sorted by where its neighbours stand in the one before it; nodes without any stay where they are."""
    swept = [list(column) for column in columns]
    indexes = range(len(swept) - 2, -1, -1) if leftwards else range(1, len(swept))
    for index in indexes:
        beside = swept[index + 1] if leftwards else swept[index - 1]
        place = {node: float(at) for at, node in enumerate(beside)}
        wish = {
            node: sum(place[other] for other in links[node]) / len(links[node]) for node in swept[index] if links[node]
        }
        movable = iter(sorted(wish, key=wish.__getitem__))
        swept[index] = [next(movable) if node in wish else node for node in swept[index]]
    return swept


def _exchanged(columns: Columns, after: Links, before: Links, *, rounds: int) -> Columns:
    """Neighbours in a column change places where that saves crossings."""
    place = {node: index for column in columns for index, node in enumerate(column)}
    for _ in range(rounds):
        changed = False
        for column in columns:
            for index in range(len(column) - 1):
                upper, lower = column[index], column[index + 1]
                if _between(upper, lower, after, before, place) > _between(lower, upper, after, before, place):
                    column[index], column[index + 1] = lower, upper
                    place[upper], place[lower] = index + 1, index
                    changed = True
        if not changed:
            break
    return columns


def _between(upper: str, lower: str, after: Links, before: Links, place: Mapping[str, int]) -> int:
    """Crossings between the edges of two neighbours in a column."""
    return sum(place[one] > place[other] for links in (after, before) for one in links[upper] for other in links[lower])
