"""The layers of one connected graph: its nodes in columns, and a slot in each column that an edge passes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from tower.core.drawing.order import ordered
from tower.core.drawing.ranks import backward, columns
from tower.core.drawing.shapes import Edge, Node
from tower.core.drawing.spread import spread, straighten

NODE_GAP: Final = 22.0
"""Between two boxes in a column."""
EDGE_GAP: Final = 15.0
"""Between a box and an edge that passes it."""
LINE_GAP: Final = 11.0
"""Between two edges that pass a column."""

CORNER: Final = 9.0
"""What stays free of edges at the corners of a box."""
TIGHT: Final = 8.0
"""Between edges at one side of a box, at the least; a box with many is made higher."""

STRAIGHT: Final = 8.0
"""Weight of a piece of an edge between two columns that it passes; what is long should be straight."""
BENT: Final = 2.0
"""Weight of a first or last piece."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A place in a column: of a node, or where an edge passes."""

    key: str
    column: int
    width: float = 0.0
    height: float = 0.0
    headroom: float = 0.0
    passed: bool = False
    """Whether an edge passes here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """An edge as it lies: the slots that it goes through from left to right."""

    edge: Edge
    slots: tuple[str, ...]
    turned: bool
    """Whether its arrow points to the left."""
    label: str | None
    """The slot that holds its label."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layers:
    """One connected graph, with everything decided but what is between the columns."""

    slots: dict[str, Slot]
    columns: list[list[str]]
    """Keys of slots, from the left, each from the top."""
    middles: dict[str, float]
    """How far down the middle of each slot is."""
    lanes: tuple[Lane, ...]


def layered(nodes: Sequence[Node], edges: Sequence[Edge]) -> Layers:
    """Put the nodes of a connected graph into columns; where nothing else decides, their order does."""
    keys = [node.key for node in nodes]
    turned = backward(keys, edges)
    column = columns(keys, edges, turned)
    at_right = Counter(edge.target if edge.key in turned else edge.source for edge in edges)
    at_left = Counter(edge.source if edge.key in turned else edge.target for edge in edges)
    slots = {
        node.key: Slot(
            key=node.key,
            column=column[node.key],
            width=node.width,
            height=max(node.height, _room(max(at_left[node.key], at_right[node.key]))),
            headroom=node.headroom,
        )
        for node in nodes
    }
    lanes = tuple(_lane(edge, edge.key in turned, column, slots) for edge in edges)
    after: dict[str, list[str]] = {key: [] for key in slots}
    before: dict[str, list[str]] = {key: [] for key in slots}
    for lane in lanes:
        for left, right in pairwise(lane.slots):
            after[left].append(right)
            before[right].append(left)
    rows = ordered(_rows(slots.values()), after, before)

    def gap(upper: str, lower: str) -> float:
        return _distance(slots[upper], slots[lower])

    middles = spread(
        rows,
        {key: [(other, _weight(slots[key], slots[other])) for other in others] for key, others in before.items()},
        {key: [(other, _weight(slots[key], slots[other])) for other in others] for key, others in after.items()},
        gap,
    )
    straighten(rows, [lane.slots[1:-1] for lane in lanes if len(lane.slots) > 3], middles, gap)
    return Layers(slots=slots, columns=rows, middles=middles, lanes=lanes)


def _room(edges: int) -> float:
    """Height of a box at one side of which so many edges end, and can be told apart."""
    return 2 * CORNER + (edges - 1) * TIGHT if edges > 1 else 0.0


def _lane(edge: Edge, turned: bool, column: dict[str, int], slots: dict[str, Slot]) -> Lane:
    """The edge from left to right, with new slots in the columns between its ends."""
    left, right = (edge.target, edge.source) if turned else (edge.source, edge.target)
    between = range(column[left] + 1, column[right])
    labelled = between[(len(between) - 1) // 2] if edge.label_width else None
    passed = []
    label = None
    for at in between:
        key = f"\0{edge.key}\0{at}"
        slots[key] = Slot(key=key, column=at, passed=True)
        if at == labelled:
            label = key
            slots[key] = Slot(key=key, column=at, width=edge.label_width, height=edge.label_height, passed=True)
        passed.append(key)
    return Lane(edge=edge, slots=(left, *passed, right), turned=turned, label=label)


def _rows(slots: Iterable[Slot]) -> list[list[str]]:
    rows: list[list[str]] = []
    for slot in slots:
        while len(rows) <= slot.column:
            rows.append([])
        rows[slot.column].append(slot.key)
    return rows


def _weight(one: Slot, other: Slot) -> float:
    return {0: 1.0, 1: BENT, 2: STRAIGHT}[one.passed + other.passed]


def _distance(upper: Slot, lower: Slot) -> float:
    """Least distance of the middles of two neighbours in a column."""
    gap = {0: NODE_GAP, 1: EDGE_GAP, 2: LINE_GAP}[upper.passed + lower.passed]
    return upper.height / 2 + gap + lower.headroom + lower.height / 2
