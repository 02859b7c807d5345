"""The map of a factory: its agents, the ways in, the joins, and who may send to whom, as a person sees them.

Owns what is shown, in which words. Where it stands in a drawing is `drawing.layout`'s, how it looks `drawing.svg`'s.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from tower.core.factory import Access, Agent, Factory
from tower.core.pipelines import Pipeline
from tower.core.routes import Join, Route, RouteMode
from tower.core.ways import Extent, WayIn, extent, open_routes, ways_in

UNITS: Final = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))
"""In which durations are shown: the largest that goes into one evenly."""


class LinkKind(StrEnum):
    """What goes along a link."""

    ENTRY = "entry"
    """What a person or the clock sends."""
    ROUTE = "route"
    """What an agent sends in its chain."""
    SPAWN = "spawn"
    """What an agent sends to open another chain."""
    RELEASE = "release"
    """What a join lets through."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """An agent as the map shows it."""

    name: str
    runner: str
    model: str | None
    effort: str | None
    description: str | None
    read_only: bool
    resident: bool
    enabled: bool
    approve: bool
    """Whether flights to it wait for a person."""
    depth: int | None
    """Flights before it in its chain, at the fewest; None: nothing wakes it."""

    @property
    def key(self) -> str:
        return f"agent:{self.name}"

    @property
    def choices(self) -> str:
        """What runs it, on one line: `claude · opus · high`."""
        return " · ".join(part for part in (self.runner, self.model, self.effort) if part)

    @property
    def marks(self) -> tuple[str, ...]:
        """What is special about it, in words."""
        marks = {
            "read-only": self.read_only,
            "resident": self.resident,
            "asks first": self.approve,
            "disabled": not self.enabled,
            "out of reach": self.enabled and self.depth is None,
        }
        return tuple(mark for mark, holds in marks.items() if holds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """A way in: an agent that a person may send to, or a pipeline."""

    entry: str
    pipeline: str | None = None
    description: str | None = None

    @property
    def key(self) -> str:
        return f"entry:{self.entry}" if self.pipeline is None else f"pipeline:{self.pipeline}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendezvous:
    """A join before its receiver."""

    receiver: str
    number: int
    """Of several before one receiver, from 1."""
    words: str
    """When it lets through: `all`, `2 of 3`, `any`; and for how long it waits."""
    join: Join

    @property
    def key(self) -> str:
        return f"join:{self.receiver}:{self.number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """An arrow of the map, between the keys of its ends."""

    kind: LinkKind
    source: str
    target: str
    pipelines: tuple[str, ...] = ()
    """The only chains that it serves; empty: all, or all that the map shows."""

    @property
    def key(self) -> str:
        return f"{self.kind} {self.source} {self.target}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FactoryMap:
    """Everything that a drawing shows."""

    pipeline: str | None
    """The one whose chains alone are shown; None: the whole factory."""
    doors: tuple[Door, ...]
    cards: tuple[Card, ...]
    joins: tuple[Rendezvous, ...]
    links: tuple[Link, ...]


def factory_map(factory: Factory, pipeline: str | None = None) -> FactoryMap:
    """The map of a factory, or of what the chains of one of its pipelines can come to.

    Raises `KeyError` for a pipeline that there is not.
    """
    if pipeline is None:
        ways = ways_in(factory)
        reach = _reach(factory, ways)
        names, routes = list(factory.agents), list(factory.routes)
    else:
        way = WayIn(entry=factory.pipelines[pipeline].entry, pipeline=pipeline)
        ways = (way,)
        reach = _reach(factory, ways)
        routes = [route for route in factory.routes if route.serves(way.scope) and route.sender in reach.depth]
        shown = {way.entry, *reach.depth, *(route.receiver for route in routes)}
        names = [name for name in factory.agents if name in shown]
    joins = tuple(_joins(routes))
    return FactoryMap(
        pipeline=pipeline,
        doors=tuple(_door(way, factory.pipelines) for way in ways),
        cards=tuple(_card(factory.agent_in(name, pipeline), factory, reach) for name in names),
        joins=joins,
        links=(*(_entry(way) for way in ways), *_links(routes, joins, scoped=pipeline is None)),
    )


def _reach(factory: Factory, ways: Iterable[WayIn]) -> Extent:
    settings = factory.settings
    return extent(ways, open_routes(factory), hops=settings.max_hops, generations=settings.max_spawn_generations)


def _door(way: WayIn, pipelines: Mapping[str, Pipeline]) -> Door:
    description = None if way.pipeline is None else pipelines[way.pipeline].description
    return Door(entry=way.entry, pipeline=way.pipeline, description=description)


def _card(agent: Agent, factory: Factory, reach: Extent) -> Card:
    runner = factory.runners[agent.runner]
    return Card(
        name=agent.name,
        # The name of a runner that an agent has to itself is its whole command.
        runner=runner.kind if runner.name.startswith(f"{runner.kind}:") else runner.name,
        model=agent.model,
        effort=agent.effort,
        description=agent.description,
        read_only=agent.access is Access.READ_ONLY,
        resident=agent.resident,
        enabled=agent.enabled,
        approve=agent.approve,
        depth=reach.depth.get(agent.name),
    )


def _entry(way: WayIn) -> Link:
    door = Door(entry=way.entry, pipeline=way.pipeline)
    return Link(kind=LinkKind.ENTRY, source=door.key, target=f"agent:{way.entry}")


def _joins(routes: Iterable[Route]) -> Iterable[Rendezvous]:
    """Every join before every receiver, numbered in the order of the file."""
    known: dict[str, dict[Join, None]] = {}
    for route in routes:
        if route.join is not None:
            known.setdefault(route.receiver, {})[route.join] = None
    for receiver, joins in known.items():
        for number, join in enumerate(joins, start=1):
            yield Rendezvous(receiver=receiver, number=number, words=_words(join), join=join)


def _words(join: Join) -> str:
    """`all`, `2 of 3 · 30m`."""
    when = f"{join.count} of {len(join.senders)}" if join.count is not None else str(join.kind)
    if join.timeout_sec is None:
        return when
    unit, size = next((it for it in UNITS if join.timeout_sec % it[1] == 0), UNITS[-1])
    return f"{when} · {join.timeout_sec / size:g}{unit}"


def _links(routes: Iterable[Route], joins: Iterable[Rendezvous], *, scoped: bool) -> Iterable[Link]:
    """One link for each pair and mode, with every pipeline that has it, in the order of the file."""
    before = {(it.receiver, it.join): it.key for it in joins}
    scopes: dict[tuple[LinkKind, str, str], frozenset[str] | None] = {}
    for route in routes:
        kind = LinkKind.SPAWN if route.mode is RouteMode.SPAWN else LinkKind.ROUTE
        target = f"agent:{route.receiver}" if route.join is None else before[route.receiver, route.join]
        ends = (kind, f"agent:{route.sender}", target)
        known = scopes.get(ends, frozenset())
        scopes[ends] = None if known is None or route.pipelines is None else known | route.pipelines
    for (kind, source, target), pipelines in scopes.items():
        shown = tuple(sorted(pipelines)) if pipelines and scoped else ()
        yield Link(kind=kind, source=source, target=target, pipelines=shown)
    for (receiver, _), key in before.items():
        yield Link(kind=LinkKind.RELEASE, source=key, target=f"agent:{receiver}")


def document(shown: FactoryMap) -> dict[str, Any]:
    """The map for programs: names instead of keys, and routes that say which join they end at."""
    joins = {join.key: index for index, join in enumerate(shown.joins)}
    receivers = {**{card.key: card.name for card in shown.cards}, **{it.key: it.receiver for it in shown.joins}}
    sends = [link for link in shown.links if link.kind in (LinkKind.ROUTE, LinkKind.SPAWN)]
    return {
        "pipeline": shown.pipeline,
        "ways_in": [
            {"agent": door.entry, "pipeline": door.pipeline, "description": door.description} for door in shown.doors
        ],
        "agents": [
            {
                "name": card.name,
                "runner": card.runner,
                "model": card.model,
                "effort": card.effort,
                "description": card.description,
                "access": "read-only" if card.read_only else "read-write",
                "resident": card.resident,
                "enabled": card.enabled,
                "approve": card.approve,
                "depth": card.depth,
            }
            for card in shown.cards
        ],
        "joins": [
            {"receiver": join.receiver, "when": join.words, "senders": list(join.join.senders)} for join in shown.joins
        ],
        "routes": [
            {
                "from": receivers[link.source],
                "to": receivers[link.target],
                "mode": "spawn" if link.kind is LinkKind.SPAWN else "async",
                "join": joins.get(link.target),
                "pipelines": list(link.pipelines) or None,
            }
            for link in sends
        ],
    }
