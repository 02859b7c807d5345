"""The map of a factory as a Mermaid flowchart, for places that draw those (code hosts, wikis)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tower.core.drawing.text import mermaid, one_line
from tower.core.factory_map import Card, FactoryMap, Link, LinkKind

LONGEST: Final = 60
"""Characters of one label."""

CLASSES: Final = (
    "classDef writer stroke:#2f6fde,stroke-width:2px",
    "classDef reader stroke:#8593a1,stroke-width:1px",
    "classDef disabled stroke-dasharray:4 3,opacity:0.55",
    "classDef join stroke:#b7791f",
    "classDef entry stroke:#1a8a5a",
)


def flowchart(shown: FactoryMap) -> str:
    """The diagram, ending with a newline. Nothing of a name becomes an identifier or syntax."""
    ids = {
        **{door.key: f"w{index}" for index, door in enumerate(shown.doors)},
        **{card.key: f"a{index}" for index, card in enumerate(shown.cards)},
        **{join.key: f"j{index}" for index, join in enumerate(shown.joins)},
    }
    lines = ["flowchart LR"]
    for door in shown.doors:
        text = "a person" if door.pipeline is None else f"pipeline {door.pipeline}"
        lines.append(f'  {ids[door.key]}(["{_label(text)}"]):::entry')
    for card in shown.cards:
        opening, closing = ("[[", "]]") if card.resident else ("[", "]")
        text = "<br/>".join(_label(line) for line in _lines(card))
        kind = "disabled" if not card.enabled else "reader" if card.read_only else "writer"
        lines.append(f'  {ids[card.key]}{opening}"{text}"{closing}:::{kind}')
    lines += [f'  {ids[join.key]}{{{{"{_label(join.words)}"}}}}:::join' for join in shown.joins]
    lines += [f"  {ids[link.source]} {_arrow(link)} {ids[link.target]}" for link in shown.links]
    lines += [f"  {line}" for line in CLASSES]
    return "\n".join(lines) + "\n"


def _lines(card: Card) -> Iterable[str]:
    yield card.name
    yield card.choices
    if card.marks:
        yield ", ".join(card.marks)


def _arrow(link: Link) -> str:
    text = ", ".join(link.pipelines)
    if link.kind is LinkKind.SPAWN:
        text = f"opens a chain, {text}" if text else "opens a chain"
    line = "-.->" if link.kind is LinkKind.SPAWN else "==>" if link.kind is LinkKind.ENTRY else "-->"
    return f'{line}|"{_label(text)}"|' if text else line


def _label(text: str) -> str:
    return mermaid(one_line(text, LONGEST))
