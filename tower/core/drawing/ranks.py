"""Which column each node stands in: cycles are broken, then every edge leads to the right, as short as may be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from tower.core.drawing.shapes import Edge

ROUNDS: Final = 50
"""Times that every node is tried in a better column; a bound for what settles after a few."""


def backward(nodes: Sequence[str], edges: Sequence[Edge]) -> frozenset[str]:
    """Keys of the edges that are turned around so that no cycle is left.

    Only edges that are part of a cycle: those that lead to a node that is fewer steps away from the first nodes, or as
    many and earlier. So `nodes` should begin with where people would begin to read.
    """
    after: dict[str, list[str]] = {key: [] for key in nodes}
    for edge in edges:
        after[edge.source].append(edge.target)
    knot = _knots(nodes, after)
    rank = {key: index for index, key in enumerate(_by_steps(nodes, after))}
    return frozenset(
        edge.key for edge in edges if knot[edge.source] == knot[edge.target] and rank[edge.source] > rank[edge.target]
    )


def _by_steps(nodes: Sequence[str], after: Mapping[str, Sequence[str]]) -> list[str]:
    """The nodes by how many steps they are from those that nothing leads to, which stand in their order.

    Where everything leads to everything, the first node takes their part.
    """
    entered = {other for others in after.values() for other in others}
    order: dict[str, None] = {}
    for starts in ([key for key in nodes if key not in entered], *([key] for key in nodes)):
        front = [key for key in starts if key not in order]
        while front:
            order.update(dict.fromkeys(front))
            front = [other for key in front for other in after[key] if other not in order]
    return list(order)


def _knots(nodes: Sequence[str], after: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """For each node a number that it shares with the nodes that it is in a cycle with (Tarjan's algorithm)."""
    found: dict[str, int] = {}
    lowest: dict[str, int] = {}
    knot: dict[str, int] = {}
    stack: list[str] = []
    for first in nodes:
        way = [] if first in found else [(first, iter(after[first]))]
        while way:
            node, others = way[-1]
            if node not in found:
                found[node] = lowest[node] = len(found)
                stack.append(node)
            for other in others:
                if other not in found:
                    way.append((other, iter(after[other])))
                    break
                if other not in knot:
                    lowest[node] = min(lowest[node], found[other])
            else:
                way.pop()
                if way:
                    lowest[way[-1][0]] = min(lowest[way[-1][0]], lowest[node])
                if lowest[node] == found[node]:
                    while node not in knot:
                        knot[stack.pop()] = found[node]
    return knot


def columns(nodes: Sequence[str], edges: Iterable[Edge], turned: frozenset[str]) -> dict[str, int]:
    """The column of each node, from 0; every edge spans at least `Edge.span`, from right to left if it is turned."""
    after: dict[str, list[tuple[str, int]]] = {key: [] for key in nodes}
    before: dict[str, list[tuple[str, int]]] = {key: [] for key in nodes}
    for edge in edges:
        left, right = (edge.target, edge.source) if edge.key in turned else (edge.source, edge.target)
        after[left].append((right, edge.span))
        before[right].append((left, edge.span))
    column: dict[str, int] = {}
    order = _sorted(nodes, after, before)
    for node in order:
        column[node] = max((column[other] + span for other, span in before[node]), default=0)
    for _ in range(ROUNDS):
        moved = False
        for node in (*reversed(order), *order):
            best = _best(node, column, after, before)
            moved |= best != column[node]
            column[node] = best
        if not moved:
            break
    first = min(column.values())
    return {node: at - first for node, at in column.items()}


Neighbours = dict[str, list[tuple[str, int]]]


def _sorted(nodes: Sequence[str], after: Neighbours, before: Neighbours) -> list[str]:
    """Every node behind those that lead to it; of those that may be next, the first of `nodes`."""
    open_edges = {node: len(before[node]) for node in nodes}
    ready = [node for node in nodes if not open_edges[node]]
    order = []
    for node in ready:
        order.append(node)
        for other, _ in after[node]:
            open_edges[other] -= 1
            if not open_edges[other]:
                ready.append(other)
    return order


def _best(node: str, column: dict[str, int], after: Neighbours, before: Neighbours) -> int:
    """The column in which a node's edges are shortest: at its right end if more lead out than in."""
    if len(after[node]) > len(before[node]):
        return min(column[other] - span for other, span in after[node])
    if len(after[node]) < len(before[node]):
        return max(column[other] + span for other, span in before[node])
    return column[node]
