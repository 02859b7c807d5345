"""The layout of any graph: nothing overlaps, everything is drawn, and all arrows point to the right that can."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, pairwise, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tower.core.drawing.layout import lay_out
from tower.core.drawing.order import crossings, ordered
from tower.core.drawing.shapes import Box, Drawing, Edge, Node, Path
from tower.core.drawing.spread import _rising


def node(key: str, width: float = 100.0, height: float = 50.0, headroom: float = 0.0) -> Node:
    return Node(key=key, width=width, height=height, headroom=headroom)


def graph(*ends: str) -> tuple[list[Node], list[Edge]]:
    """Nodes named by letters, in the order in which they occur; `ab` is an edge, `a` a node alone."""
    keys = dict.fromkeys(letter for pair in ends for letter in pair)
    edges = [Edge(key=f"{index} {pair}", source=pair[0], target=pair[1]) for index, pair in enumerate(ends) if pair[1:]]
    return [node(key) for key in keys], edges


def apart(one: Box, other: Box) -> bool:
    slack = 0.01
    return (
        one.right <= other.x + slack
        or other.right <= one.x + slack
        or one.bottom <= other.y + slack
        or other.bottom <= one.y + slack
    )


def points(path: Path) -> list[tuple[float, float]]:
    """Points on a path as it is drawn: cubic curves with level ends between its points."""
    found = []
    for (x, y), (across, down) in pairwise(path):
        for step in range(13):
            t = step / 12
            bend = (1 - t) ** 3 + 3 * (1 - t) ** 2 * t
            half = (x + across) / 2
            sideways = (1 - t) ** 3 * x + 3 * (1 - t) ** 2 * t * half + 3 * (1 - t) * t**2 * half + t**3 * across
            found.append((sideways, bend * y + (1 - bend) * down))
    return found


def inside(point: tuple[float, float], box: Box) -> bool:
    x, y = point
    return box.x + 0.5 < x < box.right - 0.5 and box.y + 0.5 < y < box.bottom - 0.5


def check(nodes: Sequence[Node], edges: Sequence[Edge], drawing: Drawing) -> None:
    """Everything that holds for every drawing."""
    assert drawing.boxes.keys() == {node.key for node in nodes}
    assert drawing.paths.keys() == {edge.key for edge in edges}
    assert drawing.labels.keys() == {edge.key for edge in edges if edge.label_width}
    for node in nodes:
        box = drawing.boxes[node.key]
        assert box.width == node.width
        assert box.height >= node.height
        assert box.x >= -0.01
        assert box.y - node.headroom >= -0.01
        assert box.right <= drawing.width + 0.01
        assert box.bottom <= drawing.height + 0.01
    whole = {
        node.key: Box(x=box.x, y=box.y - node.headroom, width=box.width, height=box.height + node.headroom)
        for node in nodes
        for box in [drawing.boxes[node.key]]
    }
    for one, other in combinations([*whole.values(), *drawing.labels.values()], 2):
        assert apart(one, other)
    for edge in edges:
        check_edge(edge, drawing)


def check_edge(edge: Edge, drawing: Drawing) -> None:
    """It leaves its source and enters its target at their sides, level, and meets no other box on its way."""
    source, target, path = drawing.boxes[edge.source], drawing.boxes[edge.target], drawing.paths[edge.key]
    back = edge.key in drawing.backward
    begin, end = path[0], path[-1]
    assert begin[0] == pytest.approx(source.x if back else source.right)
    assert end[0] == pytest.approx(target.right if back else target.x)
    assert source.y <= begin[1] <= source.bottom
    assert target.y <= end[1] <= target.bottom
    assert len(path) > 1
    assert all((one[0] > other[0]) == back for one, other in pairwise(path))
    step = drawing.columns[edge.target] - drawing.columns[edge.source]
    assert (step < 0) == back
    assert abs(step) >= edge.span
    others = [box for key, box in drawing.boxes.items() if key not in (edge.source, edge.target)]
    others += [box for key, box in drawing.labels.items() if key != edge.key]
    for point, box in product(points(path), others):
        assert not inside(point, box)


letters = "abcdefghij"
any_nodes = st.lists(st.sampled_from(letters), unique=True, min_size=1, max_size=len(letters)).flatmap(
    lambda keys: st.tuples(
        *(
            st.builds(
                Node,
                key=st.just(key),
                width=st.floats(5, 200),
                height=st.floats(5, 80),
                headroom=st.sampled_from([0.0, 20.0]),
            )
            for key in keys
        )
    )
)


@st.composite
def any_graphs(draw: st.DrawFn) -> tuple[Sequence[Node], Sequence[Edge]]:
    nodes = draw(any_nodes)
    keys = st.sampled_from([node.key for node in nodes])
    ends = (
        draw(st.lists(st.tuples(keys, keys).filter(lambda pair: pair[0] != pair[1]), max_size=18)) if nodes[1:] else []
    )
    labels = draw(st.lists(st.sampled_from([0.0, 0.0, 40.0]), min_size=len(ends), max_size=len(ends)))
    return nodes, [
        Edge(key=str(index), source=one, target=two, label_width=label, label_height=label and 15.0)
        for index, ((one, two), label) in enumerate(zip(ends, labels, strict=True))
    ]


@settings(max_examples=50)
@given(any_graphs())
def test_nothing_overlaps_and_every_arrow_is_drawn(drawn: tuple[Sequence[Node], Sequence[Edge]]) -> None:
    nodes, edges = drawn
    check(nodes, edges, lay_out(nodes, edges))


@settings(max_examples=50)
@given(any_graphs())
def test_only_what_closes_a_cycle_leads_to_the_left(drawn: tuple[Sequence[Node], Sequence[Edge]]) -> None:
    nodes, edges = drawn
    reached = {node.key: {node.key} for node in nodes}
    for _ in nodes:
        for edge in edges:
            for seen in reached.values():
                if edge.source in seen:
                    seen.add(edge.target)
    for edge in edges:
        if edge.key in lay_out(nodes, edges).backward:
            assert edge.source in reached[edge.target]


@settings(max_examples=50)
@given(any_graphs())
def test_the_same_graph_gives_the_same_drawing(drawn: tuple[Sequence[Node], Sequence[Edge]]) -> None:
    assert lay_out(*drawn) == lay_out(*drawn)


def test_reading_begins_at_the_first_node_of_a_cycle() -> None:
    drawing = lay_out(*graph("ab", "bc", "ca", "cb"))
    assert drawing.columns == {"a": 0, "b": 1, "c": 2}
    assert drawing.backward == {"2 ca", "3 cb"}


def test_what_nothing_leads_to_stands_left_of_a_cycle() -> None:
    drawing = lay_out(*graph("ab", "ba", "xb"))
    assert drawing.columns["x"] < drawing.columns["b"]
    assert drawing.backward == {"0 ab"}


def test_an_edge_to_a_nearer_node_outside_of_a_cycle_is_not_turned() -> None:
    assert lay_out(*graph("ab", "bc", "cd", "ad")).backward == frozenset()


def test_a_way_in_stands_beside_what_it_leads_to() -> None:
    columns = lay_out(*graph("ab", "bc", "cd", "xd")).columns
    assert columns["x"] == columns["d"] - 1


def test_two_edges_between_the_same_nodes_are_both_drawn_apart() -> None:
    one, two = lay_out(*graph("ab", "ab")).paths.values()
    assert one[0][1] != two[0][1]


def test_a_box_is_high_enough_to_tell_its_edges_apart() -> None:
    nodes, edges = graph(*(f"a{letter}" for letter in "bcdefghi"), *(f"{letter}a" for letter in "bcdefghi"))
    drawing = lay_out(nodes, edges)
    ports = sorted(path[0][1] if key.split()[1][0] == "a" else path[-1][1] for key, path in drawing.paths.items())
    assert len(ports) == 16
    assert all(other - one > 7.9 for one, other in pairwise(ports))


def test_a_straight_chain_is_level() -> None:
    assert all(len({y for _, y in path}) == 1 for path in lay_out(*graph("ab", "bc", "cd")).paths.values())


def test_parts_stand_in_rows_and_nodes_without_an_edge_come_last() -> None:
    drawing = lay_out(*graph("x", "v", "ab", "w", "y", "z"))
    rows: dict[float, list[str]] = {}
    for key, box in drawing.boxes.items():
        rows.setdefault(box.y, []).append(key)
    assert [sorted(row) for _, row in sorted(rows.items())] == [["a", "b", "v", "x"], ["w", "y", "z"]]


def test_nothing_is_drawn_of_nothing() -> None:
    drawing = lay_out([], [])
    assert (drawing.width, drawing.height, drawing.boxes) == (0.0, 0.0, {})


def test_crossings_are_avoided_that_can_be() -> None:
    columns = [["a", "b", "c"], ["x", "y", "z"]]
    after = {"a": ["z"], "b": ["y"], "c": ["x"], "x": [], "y": [], "z": []}
    before = {"a": [], "b": [], "c": [], "x": ["c"], "y": ["b"], "z": ["a"]}
    assert crossings(columns, after) == 3
    assert crossings(ordered(columns, after, before), after) == 0


@given(st.lists(st.lists(st.integers(0, 4), max_size=5), min_size=1, max_size=5))
def test_crossings_are_counted_as_pairs(ends: list[list[int]]) -> None:
    left, right = [f"l{index}" for index in range(len(ends))], [f"r{index}" for index in range(5)]
    after = {key: [f"r{end}" for end in some] for key, some in zip(left, ends, strict=True)} | {
        key: [] for key in right
    }
    edges = [(index, end) for index, some in enumerate(ends) for end in some]
    crossing = sum((one[0] - other[0]) * (one[1] - other[1]) < 0 for one, other in combinations(edges, 2))
    assert crossings([left, right], after) == crossing


@given(st.lists(st.tuples(st.floats(-100, 100), st.floats(0.1, 10)), min_size=1, max_size=8), st.integers(0, 7))
def test_rising_numbers_never_fall_and_none_is_better_moved(wishes: list[tuple[float, float]], index: int) -> None:
    found = _rising(wishes)
    assert all(one <= other for one, other in pairwise(found))

    def cost(numbers: Sequence[float]) -> float:
        return sum(weight * (number - wish) ** 2 for number, (wish, weight) in zip(numbers, wishes, strict=True))

    index = min(index, len(found) - 1)
    for step in (-0.01, 0.01):
        moved = [*found]
        moved[index] += step
        if all(one <= other for one, other in pairwise(moved)):
            assert cost(moved) >= cost(found) - 1e-6
