"""The figures that the map is made of, as SVG: boxes of agents, ways in, joins, and arrows between them.

Each takes a place in the drawing and gives the text of its elements; every word passes `text.xml`.
"""

from __future__ import annotations

from typing import Final

from tower.core.drawing.shapes import Box, Path
from tower.core.drawing.style import NAME, SMALL, WORDS
from tower.core.drawing.text import one_line, width, xml
from tower.core.factory_map import Card, Door, Link, LinkKind, Rendezvous

LONGEST: Final = 36
"""Characters of a line in a box, and of a label."""

LEAST_WIDTH: Final = 112.0
"""Of an agent's box."""
PADDING: Final = 16.0
"""Between the sides of a box and its words."""
BAR: Final = 3.5
"""Width of the bar that tells writers from readers."""
LINES: Final = 50.0
MARKS: Final = 20.0
"""Heights of an agent's name and choices, and of the marks below them."""
PILL: Final = 15.0
"""Height of a mark."""
PILL_ENDS: Final = 12.0
"""What a mark is wider than its word."""
DOOR: Final = 28.0
JOIN: Final = 24.0
"""Heights of a pipeline's and of a join's box."""
DOT: Final = 12.0
"""Diameter of the dot from which a person sends."""
LOOP: Final = 20.0
"""Height of the loop of an agent that sends to itself."""
LABEL: Final = 15.0
"""Height of a label."""
HEAD: Final = 7.5
"""Length of the head of an arrow."""


def card_size(card: Card) -> tuple[float, float]:
    """Width and height of an agent's box."""
    name = width(one_line(card.name, LONGEST), NAME, bold=True)
    choices = width(one_line(card.choices, LONGEST), WORDS)
    marks = sum(width(mark, SMALL) + PILL_ENDS for mark in card.marks) + 5 * (len(card.marks) - 1)
    return max(LEAST_WIDTH, max(name, choices, marks) + 2 * PADDING), LINES + (MARKS if card.marks else 0.0)


def card(shown: Card, box: Box) -> str:
    """The box of an agent, its words half way down."""
    top = box.y + (box.height - card_size(shown)[1]) / 2
    kind = ("reader" if shown.read_only else "writer") + ("" if shown.enabled else " disabled")
    parts = [
        f'<g class="agent {kind}" data-agent="{xml(shown.name)}">',
        f"<title>{xml(': '.join(part for part in (shown.name, shown.description) if part))}</title>",
        rect("box", box, 8),
    ]
    if shown.resident:
        inner = Box(x=box.x + 3, y=box.y + 3, width=box.width - 6, height=box.height - 6)
        parts.append(rect("box inner", inner, 5.5))
    bar = Box(x=box.x + 7, y=box.y + 10, width=BAR, height=box.height - 20)
    parts.append(rect("bar", bar, BAR / 2))
    left = box.x + PADDING + 1
    parts.append(_text("name", left, top + 22, one_line(shown.name, LONGEST)))
    parts.append(_text("words", left, top + 38.5, one_line(shown.choices, LONGEST)))
    for mark in shown.marks:
        pill = Box(x=left, y=top + LINES - 2, width=width(mark, SMALL) + PILL_ENDS, height=PILL)
        parts.append(rect("mark", pill, PILL / 2))
        parts.append(_centred("words small", pill, mark))
        left = pill.right + 5
    return "".join((*parts, "</g>"))


def door_size(door: Door) -> tuple[float, float]:
    """Width and height of a way in."""
    if door.pipeline is None:
        return DOT, DOT
    return width(one_line(door.pipeline, LONGEST), WORDS, bold=True) + 38, DOOR


def door(shown: Door, box: Box) -> str:
    """A way in: a dot for a person, a box with a sign of play for a pipeline."""
    if shown.pipeline is None:
        return (
            f'<g class="door" data-entry="{xml(shown.entry)}"><title>a person may send to {xml(shown.entry)}</title>'
            f'<circle class="dot" cx="{n(box.x + DOT / 2)}" cy="{n(box.middle)}" r="{n(DOT / 2)}"/></g>'
        )
    title = ": ".join(part for part in (f"pipeline {shown.pipeline}", shown.description) if part)
    x, y = box.x + 13, box.middle
    return (
        f'<g class="door" data-pipeline="{xml(shown.pipeline)}"><title>{xml(title)}</title>'
        + rect("box", box, DOOR / 2)
        + f'<path class="dot" d="M{n(x)} {n(y - 4.5)}L{n(x + 7)} {n(y)}L{n(x)} {n(y + 4.5)}Z"/>'
        + _text("words", x + 12, y + 4, one_line(shown.pipeline, LONGEST), weight=True)
        + "</g>"
    )


def join_size(join: Rendezvous) -> tuple[float, float]:
    """Width and height of a join."""
    return width(one_line(join.words, LONGEST), WORDS, bold=True) + 20, JOIN


def join(shown: Rendezvous, box: Box) -> str:
    """A join before its receiver."""
    title = f"{shown.receiver} wakes once: {shown.words} of {', '.join(shown.join.senders)}"
    return (
        f'<g class="join" data-receiver="{xml(shown.receiver)}"><title>{xml(title)}</title>'
        + rect("box", box, 5)
        + _centred("words", box, one_line(shown.words, LONGEST), weight=True)
        + "</g>"
    )


def label_size(link: Link) -> tuple[float, float]:
    """Width and height of what is written on an arrow; zeros when nothing is."""
    return (width(label(link), SMALL) + 10, LABEL) if link.pipelines else (0.0, 0.0)


def label(link: Link) -> str:
    """What is written on an arrow: the pipelines that it is for."""
    return one_line(", ".join(link.pipelines), LONGEST)


def arrow(link: Link, path: Path, at: Box | None) -> str:
    """An arrow along a path, with its label in the box `at`."""
    (before, _), (x, y) = path[-2:]
    forth = 1 if x > before else -1
    line = _line((*path[:-1], (x - forth * HEAD * 0.8, y)))
    back, half = x - forth * HEAD, HEAD * 0.52
    head = f"M{n(x)} {n(y)}L{n(back)} {n(y - half)}L{n(back)} {n(y + half)}Z"
    return _link(link, line, head, at)


def loop(link: Link, box: Box) -> str:
    """The arrow of an agent that sends to itself, on top of its box."""
    right, left, top = box.right - 14, box.right - 40, box.y - LOOP
    line = f"M{n(right)} {n(box.y)}C{n(right)} {n(top)} {n(left)} {n(top)} {n(left)} {n(box.y - HEAD * 0.8)}"
    half, above = HEAD * 0.52, box.y - HEAD
    head = f"M{n(left)} {n(box.y)}L{n(left - half)} {n(above)}L{n(left + half)} {n(above)}Z"
    size, height = label_size(link)
    at = Box(x=left - size - 4, y=box.y - LABEL - 2, width=size, height=height) if size else None
    return _link(link, line, head, at)


def sample(kind: LinkKind, box: Box) -> str:
    """A short arrow for the legend, between no ends."""
    return arrow(Link(kind=kind, source="", target=""), ((box.x, box.middle), (box.right, box.middle)), None)


def _link(link: Link, line: str, head: str, at: Box | None) -> str:
    ends = f' data-from="{xml(link.source)}" data-to="{xml(link.target)}"' if link.source else ""
    parts = [
        f'<g class="link {link.kind}"{ends}>',
        f'<path class="casing" d="{line}"/><path class="line" d="{line}"/><path class="head" d="{head}"/>',
    ]
    if at is not None:
        parts += [rect("paper", at, 4), _centred("words small", at, label(link))]
    return "".join((*parts, "</g>"))


def _line(path: Path) -> str:
    x, y = path[0]
    steps = [f"M{n(x)} {n(y)}"]
    for across, down in path[1:]:
        half = (x + across) / 2
        level = abs(down - y) < 0.05
        steps.append(f"H{n(across)}" if level else f"C{n(half)} {n(y)} {n(half)} {n(down)} {n(across)} {n(down)}")
        x, y = across, down
    return "".join(steps)


def rect(kind: str, box: Box, corner: float) -> str:
    """A rectangle with round corners."""
    return (
        f'<rect class="{kind}" x="{n(box.x)}" y="{n(box.y)}" width="{n(box.width)}" height="{n(box.height)}"'
        f' rx="{n(corner)}"/>'
    )


def _text(kind: str, x: float, y: float, words: str, *, weight: bool = False) -> str:
    bold = ' font-weight="600"' if weight else ""
    return f'<text class="{kind}" x="{n(x)}" y="{n(y)}"{bold}>{xml(words)}</text>'


def _centred(kind: str, box: Box, words: str, *, weight: bool = False) -> str:
    size = SMALL if "small" in kind else WORDS
    bold = ' font-weight="600"' if weight else ""
    x, y = box.x + box.width / 2, box.middle + size * 0.35
    return f'<text class="{kind}" x="{n(x)}" y="{n(y)}" text-anchor="middle"{bold}>{xml(words)}</text>'


def words(x: float, y: float, text: str) -> str:
    """A line of words at its left end and its base line."""
    return _text("words", x, y, text)


def n(number: float) -> str:
    """A length, to a tenth of a pixel."""
    text = f"{number:.1f}"
    return text.removesuffix(".0") if text != "-0.0" else "0"
