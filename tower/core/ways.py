"""What the ways into a factory can wake: per way in, over the routes that its chains may use.

Owns chains that open chains, and which rail keeps an agent from being woken. How far one chain gets is `reach`'s; what
a person is told of it is for the checks of `config` and for the drawing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tower.core.factory import Factory
from tower.core.reach import Barrier, Place, Reachable, reachable
from tower.core.routes import Join, Route, RouteMode, Scope

UNBOUNDED: Final = 1 << 30
"""As hops or generations: more than any factory has agents."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WayIn:
    """An agent that a person or the clock may send to, and whose chains its flight opens."""

    entry: str
    pipeline: str | None = None
    """None: straight to an agent with `entry = true`."""

    @property
    def scope(self) -> Scope:
        """Which routes its chains may use."""
        return Scope(pipeline=self.pipeline)


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """What can come of one way in, or of several together."""

    depth: Mapping[str, int]
    """Agent that can be woken -> flights before it in its chain, at the fewest; 0 for the first of a chain."""
    generation: Mapping[str, int]
    """Agent that can be woken -> how far below the first the chain lies that wakes it, at the least."""
    deliveries: frozenset[tuple[str, str]]
    """(sender, receiver) that a flight can be sent along, in one chain or to open another."""
    missing: Mapping[tuple[str, Join], frozenset[str]]
    """A receiver and its join -> the named senders that cannot deliver, in the chain where fewest are missing."""

    def opens(self, receiver: str, join: Join) -> bool:
        """Whether the join ever lets anything through to this receiver."""
        missing = self.missing.get((receiver, join), frozenset(join.senders))
        return len(join.senders) - len(missing) >= join.needed


def ways_in(factory: Factory) -> tuple[WayIn, ...]:
    """Where chains begin: the agents that may be sent to, then the pipelines; not those that are disabled."""
    straight = [WayIn(entry=name) for name, agent in factory.agents.items() if agent.entry]
    named = [WayIn(entry=pipeline.entry, pipeline=name) for name, pipeline in factory.pipelines.items()]
    return tuple(way for way in (*straight, *named) if factory.agents[way.entry].enabled)


def open_routes(factory: Factory) -> tuple[Route, ...]:
    """The routes that flights can take: those to an agent that is disabled are refused."""
    return tuple(route for route in factory.routes if factory.agents[route.receiver].enabled)


def extent(
    ways: Iterable[WayIn],
    routes: Sequence[Route],
    *,
    hops: int = UNBOUNDED,
    generations: int = UNBOUNDED,
    joined: bool = True,
) -> Extent:
    """What these ways in can wake when a chain has `hops` flights and chains may open chains `generations` deep.

    `routes` are all that the factory has, those to agents that nothing can be sent to left out. Without `joined`, a
    join lets everything through: so it is when a person releases it.
    """
    depth: dict[str, int] = {}
    generation: dict[str, int] = {}
    deliveries: set[tuple[str, str]] = set()
    missing: dict[tuple[str, Join], frozenset[str]] = {}
    for usable, entries in _by_routes(ways, routes):
        joins = _joins(usable) if joined else {}
        spawning = [route for route in usable if route.mode is RouteMode.SPAWN]
        # Only a join tells chains apart: where there is none, what several come to is what one from all places does.
        begun = [[entry] for entry in entries] if joins else [entries]
        for at, chain in _chains(begun, usable, spawning, tuple(joins.values()), hops, generations):
            for agent, left in chain.agents.items():
                depth[agent] = min(hops - 1 - left, depth.get(agent, UNBOUNDED))
                generation[agent] = min(at, generation.get(agent, UNBOUNDED))
            deliveries.update(chain.deliveries)
            for key, barrier in joins.items():
                absent = {sender for sender in barrier.senders if not chain.brings(sender, barrier.receiver)}
                missing[key] = min(missing.get(key, frozenset(barrier.senders)), frozenset(absent), key=len)
            if at < generations:
                deliveries.update((it.sender, it.receiver) for it in spawning if it.sender in chain.agents)
    return Extent(depth=depth, generation=generation, deliveries=frozenset(deliveries), missing=missing)


def _by_routes(ways: Iterable[WayIn], routes: Sequence[Route]) -> Iterable[tuple[list[Route], list[str]]]:
    """The routes that some of the ways in share, with the agents that these begin at."""
    scopes: dict[str | None, dict[str, None]] = {}
    for way in ways:
        scopes.setdefault(way.pipeline, {})[way.entry] = None
    shared: dict[tuple[int, ...], dict[str, None]] = {}
    for pipeline, entries in scopes.items():
        scope = Scope(pipeline=pipeline)
        usable = tuple(index for index, route in enumerate(routes) if route.serves(scope))
        shared.setdefault(usable, {}).update(entries)
    for usable, entries in shared.items():
        yield [routes[index] for index in usable], list(entries)


def _joins(routes: Iterable[Route]) -> dict[tuple[str, Join], Barrier]:
    """The barriers before the receivers of these routes, with nothing parked."""
    return {
        (route.receiver, route.join): Barrier(
            receiver=route.receiver, senders=route.join.senders, needed=route.join.needed
        )
        for route in routes
        if route.join is not None
    }


def _chains(
    begun: Iterable[list[str]],
    routes: Sequence[Route],
    spawning: Sequence[Route],
    barriers: Sequence[Barrier],
    hops: int,
    generations: int,
) -> Iterable[tuple[int, Reachable]]:
    """The generation and the reach of each chain that may be opened; `begun` are those of the ways in.

    A list of agents is a chain that begins at all of them. No agent begins a second one.
    """
    front = deque((0, agents) for agents in begun)
    known = {agent for _, agents in front for agent in agents}
    apart = bool(barriers)
    while front:
        at, agents = front.popleft()
        # The trigger is flight 1 of at most `hops`.
        chain = reachable([Place(agent=agent, hops=hops - 1) for agent in agents], routes, barriers)
        yield at, chain
        if at == generations:
            continue
        opened = dict.fromkeys(it.receiver for it in spawning if it.sender in chain.agents and it.receiver not in known)
        known.update(opened)
        if opened:
            front.extend((at + 1, [agent]) for agent in opened) if apart else front.append((at + 1, list(opened)))
