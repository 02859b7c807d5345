"""The map of a factory as an SVG picture that stands by itself: no script, nothing from elsewhere, light and dark.

What belongs to an agent, a way in, a join or an arrow carries `data-` attributes, so that a page can find it.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from tower.core.drawing import figures
from tower.core.drawing.layout import lay_out
from tower.core.drawing.legend import legend
from tower.core.drawing.shapes import Drawing, Edge, Node
from tower.core.drawing.style import MARGIN, STYLE
from tower.core.drawing.text import xml
from tower.core.factory_map import FactoryMap


def picture(shown: FactoryMap) -> str:
    """The whole picture as one document, ending with a newline. The same map always gives the same bytes."""
    drawing = lay_out(tuple(_nodes(shown)), tuple(_edges(shown)))
    below = legend(shown, drawing.width)
    wide = figures.n(max(drawing.width, below.width) + 2 * MARGIN)
    high = figures.n(drawing.height + 2 * MARGIN + (below.height + MARGIN if below.elements else 0.0))
    what = xml("Route map" if shown.pipeline is None else f"Route map of pipeline {shown.pipeline}")
    lines = (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="tower-map" role="img" aria-label="{what}"'
        f' width="{wide}" height="{high}" viewBox="0 0 {wide} {high}">',
        f"<title>{what}</title>",
        f"<style>{STYLE}</style>",
        f'<rect class="paper" width="{wide}" height="{high}"/>',
        *_group(MARGIN, _figures(shown, drawing)),
        *_group(drawing.height + 2 * MARGIN, below.elements),
        "</svg>",
    )
    return "".join(f"{line}\n" for line in lines)


def _nodes(shown: FactoryMap) -> Iterable[Node]:
    """Every box, ways in first, since that is where reading begins."""
    loops = {link.source for link in shown.links if link.source == link.target}
    for door in shown.doors:
        width, height = figures.door_size(door)
        yield Node(key=door.key, width=width, height=height)
    for card in shown.cards:
        width, height = figures.card_size(card)
        yield Node(key=card.key, width=width, height=height, headroom=figures.LOOP if card.key in loops else 0.0)
    for join in shown.joins:
        width, height = figures.join_size(join)
        yield Node(key=join.key, width=width, height=height)


def _edges(shown: FactoryMap) -> Iterable[Edge]:
    for link in shown.links:
        if link.source != link.target:
            width, height = figures.label_size(link)
            yield Edge(key=link.key, source=link.source, target=link.target, label_width=width, label_height=height)


def _figures(shown: FactoryMap, drawing: Drawing) -> Iterable[str]:
    """Arrows first, so that no line is drawn over a box."""
    for link in shown.links:
        if link.source == link.target:
            yield figures.loop(link, drawing.boxes[link.source])
        else:
            yield figures.arrow(link, drawing.paths[link.key], drawing.labels.get(link.key))
    yield from (figures.door(door, drawing.boxes[door.key]) for door in shown.doors)
    yield from (figures.join(join, drawing.boxes[join.key]) for join in shown.joins)
    yield from (figures.card(card, drawing.boxes[card.key]) for card in shown.cards)


def _group(down: float, elements: Iterable[str]) -> Iterable[str]:
    return chain([f'<g transform="translate({figures.n(MARGIN)} {figures.n(down)})">'], elements, ["</g>"])
