"""A layered layout from left to right: where every box stands and how every edge runs between them.

Connected parts stand in rows, in the order of their first nodes; nodes without any edge come last.
The same graph always gives the same drawing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

from tower.core.drawing.layers import CORNER, Layers, layered
from tower.core.drawing.shapes import Box, Drawing, Edge, Node, Path, Point

PART_GAP: Final = 34.0
"""Between connected parts."""
LEAST_ROW: Final = 640.0
"""Width of the rows that connected parts stand in, if none is wider."""

LEAST_GAP: Final = 40.0
MOST_GAP: Final = 130.0
STEEPNESS: Final = 0.3
"""Between two columns: so wide for each pixel that the steepest edge there rises, within the bounds."""

PORT_GAP: Final = 11.0
"""Between two edges at one side of a box, where it is high enough."""
KINK: Final = 4.0
"""A smaller step between two columns is made level, where a box has no other edge at that side."""


def lay_out(nodes: Sequence[Node], edges: Sequence[Edge]) -> Drawing:
    """Place the nodes and route the edges. Ends of edges are nodes; no edge has two equal ends; keys are unique."""
    parts, alone = _parts(nodes, edges)
    return _packed([*(_placed(layered(some, between)) for some, between in parts), *map(_alone, alone)])


def _parts(nodes: Sequence[Node], edges: Sequence[Edge]) -> tuple[list[tuple[list[Node], list[Edge]]], list[Node]]:
    """The connected parts with an edge, and the nodes that have none."""
    beside: dict[str, list[str]] = {node.key: [] for node in nodes}
    for edge in edges:
        beside[edge.source].append(edge.target)
        beside[edge.target].append(edge.source)
    part: dict[str, int] = {}
    count = 0
    for node in nodes:
        if node.key in part or not beside[node.key]:
            continue
        front = [node.key]
        part[node.key] = count
        for key in front:
            for other in beside[key]:
                if other not in part:
                    part[other] = count
                    front.append(other)
        count += 1
    parts: list[tuple[list[Node], list[Edge]]] = [([], []) for _ in range(count)]
    for node in nodes:
        if node.key in part:
            parts[part[node.key]][0].append(node)
    for edge in edges:
        parts[part[edge.source]][1].append(edge)
    return parts, [node for node in nodes if node.key not in part]


def _placed(layers: Layers) -> Drawing:
    """One connected part, its upper left corner at 0, 0."""
    ports = _ports(layers)
    slots, middles = layers.slots, layers.middles
    widths = [max(slots[key].width for key in column) for column in layers.columns]
    left = _columns(layers, ports, widths)
    boxes = {}
    for key, slot in slots.items():
        x = left[slot.column] + (widths[slot.column] - slot.width) / 2
        boxes[key] = Box(x=x, y=middles[key] - slot.height / 2, width=slot.width, height=slot.height)
    # A path bends between columns alone: in one it is level, so that it meets no box but those of its ends.
    paths = {}
    for lane in layers.lanes:
        points: list[Point] = [(boxes[lane.slots[0]].right, ports[lane.edge.key, 0][0])]
        for index, (one, other) in enumerate(pairwise(lane.slots)):
            begins, ends = ports[lane.edge.key, index]
            points.append((left[slots[one].column] + widths[slots[one].column], begins))
            points.append((left[slots[other].column], ends))
        points.append((boxes[lane.slots[-1]].x, ports[lane.edge.key, len(lane.slots) - 2][1]))
        paths[lane.edge.key] = _simplified(reversed(points) if lane.turned else points)
    top = min(middles[key] - slot.height / 2 - slot.headroom for key, slot in slots.items())
    bottom = max(middles[key] + slot.height / 2 for key, slot in slots.items())
    drawing = Drawing(
        boxes={key: box for key, box in boxes.items() if not slots[key].passed},
        paths=paths,
        labels={lane.edge.key: boxes[lane.label] for lane in layers.lanes if lane.label},
        columns={key: slot.column for key, slot in slots.items() if not slot.passed},
        backward=frozenset(lane.edge.key for lane in layers.lanes if lane.turned),
        width=left[-1] + widths[-1],
        height=bottom - top,
    )
    return _moved(drawing, 0.0, -top)


def _ports(layers: Layers) -> dict[tuple[str, int], tuple[float, float]]:
    """For each edge and each piece of it: how far down it begins and ends, from left to right.

    The edges at one side of a box stand in the order of where they go, so that they do not cross there.
    """
    begins: dict[str, list[tuple[float, int, tuple[str, int]]]] = {}
    ends: dict[str, list[tuple[float, int, tuple[str, int]]]] = {}
    pieces: dict[tuple[str, int], tuple[str, str]] = {}
    places = {key: index for column in layers.columns for index, key in enumerate(column)}
    for lane in layers.lanes:
        for index, (one, other) in enumerate(pairwise(lane.slots)):
            piece = (lane.edge.key, index)
            pieces[piece] = (one, other)
            begins.setdefault(one, []).append((layers.middles[other], places[other], piece))
            ends.setdefault(other, []).append((layers.middles[one], places[one], piece))
    starts = _distributed(layers, begins)
    stops = _distributed(layers, ends)
    ports = {piece: (at, stops[piece]) for piece, at in starts.items()}
    for piece, (begin, end) in ports.items():
        if abs(begin - end) < KINK:
            one, other = pieces[piece]
            if not layers.slots[one].passed and len(begins[one]) == 1:
                ports[piece] = (end, end)
            elif not layers.slots[other].passed and len(ends[other]) == 1:
                ports[piece] = (begin, begin)
    return ports


def _distributed(
    layers: Layers, sides: dict[str, list[tuple[float, int, tuple[str, int]]]]
) -> dict[tuple[str, int], float]:
    ports = {}
    for key, pieces in sides.items():
        room = max(layers.slots[key].height - 2 * CORNER, 0.0)
        step = min(PORT_GAP, room / max(len(pieces) - 1, 1))
        first = layers.middles[key] - step * (len(pieces) - 1) / 2
        for index, (_, _, piece) in enumerate(sorted(pieces)):
            ports[piece] = first + index * step
    return ports


def _columns(layers: Layers, ports: dict[tuple[str, int], tuple[float, float]], widths: Sequence[float]) -> list[float]:
    """Where each column begins; the steeper the edges between two, the wider they stand apart."""
    rise = [0.0] * len(widths)
    for lane in layers.lanes:
        for index, one in enumerate(lane.slots[:-1]):
            begin, end = ports[lane.edge.key, index]
            column = layers.slots[one].column
            rise[column] = max(rise[column], abs(end - begin))
    left = [0.0]
    for width, steepest in zip(widths[:-1], rise, strict=False):
        left.append(left[-1] + width + min(max(STEEPNESS * steepest, LEAST_GAP), MOST_GAP))
    return left


def _simplified(points: Iterable[Point]) -> Path:
    """Without what changes nothing: points on a level line, and steps too small to be seen."""
    path: list[Point] = []
    for point in points:
        if path and point == path[-1]:
            continue
        if len(path) > 1 and path[-2][1] == path[-1][1] == point[1]:
            path[-1] = point
        else:
            path.append(point)
    return tuple(path)


def _alone(node: Node) -> Drawing:
    """A node without an edge."""
    return Drawing(
        boxes={node.key: Box(x=0.0, y=node.headroom, width=node.width, height=node.height)},
        paths={},
        labels={},
        columns={node.key: 0},
        backward=frozenset(),
        width=node.width,
        height=node.headroom + node.height,
    )


def _packed(pieces: Sequence[Drawing]) -> Drawing:
    """The pieces as one drawing, in rows as wide as the widest of them."""
    wide = max((piece.width for piece in pieces), default=0.0)
    wide = max(wide, LEAST_ROW)
    placed: list[Drawing] = []
    x = y = height = width = 0.0
    for piece in pieces:
        if x and x + piece.width > wide:
            x, y, height = 0.0, y + height + PART_GAP, 0.0
        placed.append(_moved(piece, x, y))
        width = max(width, x + piece.width)
        height = max(height, piece.height)
        x += piece.width + PART_GAP
    return Drawing(
        boxes={key: box for piece in placed for key, box in piece.boxes.items()},
        paths={key: path for piece in placed for key, path in piece.paths.items()},
        labels={key: box for piece in placed for key, box in piece.labels.items()},
        columns={key: column for piece in placed for key, column in piece.columns.items()},
        backward=frozenset(key for piece in placed for key in piece.backward),
        width=width,
        height=y + height,
    )


def _moved(drawing: Drawing, x: float, y: float) -> Drawing:
    return Drawing(
        boxes={key: box.moved(x, y) for key, box in drawing.boxes.items()},
        paths={key: tuple((at + x, down + y) for at, down in path) for key, path in drawing.paths.items()},
        labels={key: box.moved(x, y) for key, box in drawing.labels.items()},
        columns=drawing.columns,
        backward=drawing.backward,
        width=drawing.width,
        height=drawing.height,
    )
