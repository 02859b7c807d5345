"""What the signs of a map mean, for those that occur in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from tower.core.drawing import figures
from tower.core.drawing.shapes import Box
from tower.core.drawing.style import WORDS
from tower.core.drawing.text import width
from tower.core.factory_map import FactoryMap, LinkKind

LINE: Final = 22.0
"""Height of a line of the legend."""
SIGN: Final = 28.0
"""Width of a sign."""
GAP: Final = 22.0
"""Between two entries."""
NARROWEST: Final = 460.0
"""Width of a line, if the picture is not wider."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Legend:
    """The legend below a picture, its upper left corner at 0, 0."""

    elements: tuple[str, ...]
    width: float
    height: float


def legend(shown: FactoryMap, across: float) -> Legend:
    """One entry for each kind of sign in the map, in lines as wide as the picture."""
    elements: list[str] = []
    x = y = widest = 0.0
    for sign, text in _entries(shown):
        needed = SIGN + 8 + width(text, WORDS)
        if x and x + needed > max(across, NARROWEST):
            x, y = 0.0, y + LINE
        elements.append(sign(Box(x=x, y=y, width=SIGN, height=LINE)))
        elements.append(figures.words(x + SIGN + 8, y + LINE / 2 + WORDS * 0.35, text))
        widest = max(widest, x + needed)
        x += needed + GAP
    return Legend(elements=tuple(elements), width=widest, height=y + LINE if elements else 0.0)


Sign = Callable[[Box], str]


def _entries(shown: FactoryMap) -> Iterable[tuple[Sign, str]]:
    kinds = {link.kind for link in shown.links}
    if any(door.pipeline is None for door in shown.doors):
        yield _dot, "a person may send"
    if any(door.pipeline is not None for door in shown.doors):
        yield _pipeline, "pipeline"
    if any(not card.read_only for card in shown.cards):
        yield _bar("writer"), "writes in the live tree"
    if any(card.read_only for card in shown.cards):
        yield _bar("reader"), "works in a snapshot"
    if any(card.resident for card in shown.cards):
        yield _resident, "its process stays"
    if LinkKind.ROUTE in kinds:
        yield _arrow(LinkKind.ROUTE), "may send"
    if LinkKind.SPAWN in kinds:
        yield _arrow(LinkKind.SPAWN), "opens a chain of its own"
    if shown.joins:
        yield _join, "waits for its senders, then wakes once"


def _dot(box: Box) -> str:
    x, y = figures.n(box.x + box.width / 2), figures.n(box.middle)
    return f'<g class="door"><circle class="dot" cx="{x}" cy="{y}" r="{figures.n(figures.DOT / 2)}"/></g>'


def _small(box: Box) -> Box:
    return Box(x=box.x + 1, y=box.middle - 7.5, width=box.width - 2, height=15)


def _pipeline(box: Box) -> str:
    place = _small(box)
    x, y = place.x + place.width / 2 - 2.5, place.middle
    return (
        f'<g class="door">{figures.rect("box", place, 7.5)}'
        f'<path class="dot" d="M{figures.n(x)} {figures.n(y - 4)}l6 4l-6 4z"/></g>'
    )


def _bar(kind: str) -> Sign:
    def sign(box: Box) -> str:
        place = _small(box)
        bar = Box(x=place.x + 4, y=place.y + 3.5, width=figures.BAR, height=place.height - 7)
        return f'<g class="{kind}">{figures.rect("box", place, 4)}{figures.rect("bar", bar, figures.BAR / 2)}</g>'

    return sign


def _resident(box: Box) -> str:
    place = _small(box)
    inner = Box(x=place.x + 2.5, y=place.y + 2.5, width=place.width - 5, height=place.height - 5)
    return f"<g>{figures.rect('box', place, 4)}{figures.rect('box inner', inner, 2)}</g>"


def _join(box: Box) -> str:
    return f'<g class="join">{figures.rect("box", _small(box), 4)}</g>'


def _arrow(kind: LinkKind) -> Sign:
    return lambda box: figures.sample(kind, box)
