"""How far flights can get: over the routes a chain may use, with the hops it has, through the barriers of its joins.

Owns the question who may still bring whom a flight. Which routes a chain may use is `routes`'; what follows from an
answer (a join given up, a warning, a drawing) is for who asks.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tower.core.routes import Route, RouteMode


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """An agent that runs, or will run, in a chain, and the hops that its flight has left."""

    agent: str
    hops: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Barrier:
    """What stands before a joined receiver: flights of these senders are parked until enough of them are there."""

    receiver: str
    senders: tuple[str, ...]
    needed: int
    """Different senders that open it: all of them, a quorum, or 1 for `any` and `settled`."""
    parked: Mapping[str, int] = field(default_factory=dict)
    """Sender -> hops left of its flight that waits here."""

    def opened(self, brought: Mapping[tuple[str, str], int]) -> int | None:
        """Hops of the flight that it lets through at best; None: too few senders can have delivered.

        That flight has the fewest hops of its parts: a chain is as deep as its longest way.
        """
        hops = [
            max(self.parked.get(sender, -1), brought.get((sender, self.receiver), -1))
            for sender in dict.fromkeys(self.senders)
        ]
        hops.sort(reverse=True)
        return hops[self.needed - 1] if len(hops) >= self.needed and hops[self.needed - 1] >= 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reachable:
    """What may still happen in one chain. Nothing that can happen is missing."""

    agents: Mapping[str, int]
    """Agent that runs or may be woken -> the most hops that its flight may have left."""
    deliveries: Mapping[tuple[str, str], int]
    """(sender, receiver) between which a flight may still be sent -> the most hops that it may have left."""

    def brings(self, sender: str, receiver: str) -> bool:
        """Whether `sender` may still send to `receiver`, be it to wake it or to be parked before it."""
        return (sender, receiver) in self.deliveries


def reachable(places: Iterable[Place], routes: Iterable[Route], barriers: Iterable[Barrier] = ()) -> Reachable:
    """What a chain may still bring about from the places where it is alive.

    `places`: its flights that are starting or running, queued or held; not those that are parked. `routes`: those that
    serve the chain (one to an agent that nothing can be sent to left out); a route that opens a chain of its own brings
    nothing in this one. `barriers`: every joined receiver, with what is parked there.

    A barrier is opened by a new delivery alone, so what could be let through as it stands is let through before this is
    asked: a `settled` barrier that nothing reaches any more goes first, and is a queued place then.
    """
    after: dict[str, list[str]] = {}
    for route in routes:
        if route.mode is not RouteMode.SPAWN:
            after.setdefault(route.sender, []).append(route.receiver)
    before: dict[tuple[str, str], list[Barrier]] = {}
    for barrier in barriers:
        for sender in barrier.senders:
            before.setdefault((sender, barrier.receiver), []).append(barrier)
    agents: dict[str, int] = {}
    brought: dict[tuple[str, str], int] = {}
    # The most hops first, so that most agents are looked at once; what is parked may let one through with more than
    # were on the way so far, and then it is looked at again.
    front = [(-place.hops, place.agent) for place in places]
    heapq.heapify(front)
    while front:
        hops, agent = heapq.heappop(front)
        if -hops <= agents.get(agent, -1):
            continue
        agents[agent] = -hops
        if -hops < 1:
            continue
        for receiver in after.get(agent, ()):
            pair = (agent, receiver)
            brought[pair] = -hops - 1
            wakes = [barrier.opened(brought) for barrier in before[pair]] if pair in before else [brought[pair]]
            for woken in wakes:
                if woken is not None:
                    heapq.heappush(front, (-woken, receiver))
    return Reachable(agents=agents, deliveries=brought)
