"""A look at the queue: what the dispatcher decides by, and the words in which `tower queue` explains it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from tower.core.admission import decide
from tower.core.factory import Factory
from tower.core.rails import Decision, Rails, Seat, Start
from tower.core.records import Flight, Itinerary
from tower.core.states import FlightState
from tower.engine import joins, money
from tower.engine.tower import Tower
from tower.store import circuits, itineraries, queue
from tower.store.database import Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What admission is asked about, at one moment."""

    queue: Sequence[Flight]
    chains: dict[str, Itinerary]
    alive: Sequence[Seat]
    rails: Rails
    due: float | None
    """When the next flight falls due by the clock."""

    def decide(self, tower: Tower) -> dict[str, Decision]:
        """What becomes of each flight of the queue, in the order of their turns."""
        return decide(self.queue, factory=tower.factory, itineraries=self.chains, alive=self.alive, rails=self.rails)


async def look(tower: Tower, waiting: Sequence[Flight] | None = None) -> Look:
    """What there is to decide about `waiting`, or about the flights whose turn may be next."""
    # Read here and not in the reader's thread: the tasks of the loop change it.
    alive, rails = tower.seats(), tower.rails()
    return await tower.store.read(partial(_look, tower, waiting, alive, rails))


def _look(
    tower: Tower, waiting: Sequence[Flight] | None, alive: Sequence[Seat], rails: Rails, connection: Connection
) -> Look:
    factory, now = tower.factory, rails.now
    if waiting is None:
        most = factory.settings.max_concurrent_runs + len(rails.residents)
        waiting = queue.heads(connection, most=most, busy=len({seat.itinerary for seat in alive}), now=now)
    found = [itineraries.get(connection, identity) for identity in {flight.itinerary for flight in waiting}]
    books = money.books(factory, connection, {flight.receiver for flight in waiting}, now)
    return Look(
        queue=waiting,
        chains={chain.id: chain for chain in found if chain is not None},
        alive=alive,
        rails=replace(rails, books=books, circuits=circuits.every(connection)),
        due=queue.next_due(connection, now),
    )


async def explain_waiting(tower: Tower, limit: int) -> list[tuple[Flight, str | None]]:
    """What waits, each with what for in words: what is queued in the order of its turns, then what is held or parked.

    A held flight has its words on its own record.
    """
    waiting, parked = await tower.store.read(partial(_waiting, tower.factory, limit))
    queued = {it.id: it for it in waiting if it.state is FlightState.QUEUED and it.joined in (None, it.id)}
    decisions = (await look(tower, list(queued.values()))).decide(tower)
    words = [
        (queued[flight], "about to start" if isinstance(decision, Start) else decision.words)
        for flight, decision in decisions.items()
    ]
    return words + [(flight, parked.get(flight.id)) for flight in waiting if flight.id not in queued]


def _waiting(factory: Factory, limit: int, connection: Connection) -> tuple[list[Flight], dict[str, str]]:
    """The flights that wait, and for each parked one what its join waits for."""
    waiting = queue.waiting(connection, limit=limit)
    parked = [flight for flight in waiting if flight.state is FlightState.PARKED]
    chains = [itineraries.get(connection, identity) for identity in {flight.itinerary for flight in parked}]
    of_chain = {chain.id: joins.barriers_of(factory, connection, chain) for chain in chains if chain is not None}
    words = {flight.id: joins.words_for(flight, of_chain.get(flight.itinerary, {})) for flight in parked}
    return waiting, {identity: said for identity, said in words.items() if said}
