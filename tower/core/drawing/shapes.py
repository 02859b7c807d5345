"""The values that a layout begins with and ends with. All lengths are pixels; x grows to the right, y downwards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """Something that is drawn as a box. It may be made higher than `height`, where many edges end at one side of it."""

    key: str
    width: float
    height: float
    headroom: float = 0.0
    """Room above it that stays free (for a loop, say)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """An arrow between two different nodes; `key` is its own among the edges."""

    key: str
    source: str
    target: str
    label_width: float = 0.0
    label_height: float = 0.0
    """0: it has no label."""

    @property
    def span(self) -> int:
        """Columns that it needs: one for the step, one more for a label of its own."""
        return 2 if self.label_width else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """Where something stands: its upper left corner and its size."""

    x: float
    y: float
    width: float
    height: float

    @property
    def right(self) -> float:
        return self.x + self.width

    @property
    def bottom(self) -> float:
        return self.y + self.height

    @property
    def middle(self) -> float:
        """Half way down."""
        return self.y + self.height / 2

    def moved(self, x: float, y: float) -> Box:
        """The same box further right and down."""
        return Box(x=self.x + x, y=self.y + y, width=self.width, height=self.height)


Point = tuple[float, float]
Path = tuple[Point, ...]
"""From the source to the target. Between two points it is level, or a curve that is level at both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """Where everything stands."""

    boxes: Mapping[str, Box]
    """By the key of the node, without its headroom."""
    paths: Mapping[str, Path]
    """By the key of the edge."""
    labels: Mapping[str, Box]
    """By the key of the edge, for those that have one."""
    columns: Mapping[str, int]
    """By the key of the node, from the left; within each connected part alone they mean an order."""
    backward: frozenset[str]
    """Keys of the edges that lead to the left, since they close a cycle."""
    width: float
    height: float
