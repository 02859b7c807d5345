"""Which flights start now, and for every other one the reason why not.

One pure function over the queue, the runs alive, the rails and the clock. It decides whose turn it is; the single
checks are `checks`', the dispatcher carries out what it decided, and `tower queue` shows what it said.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from heapq import heapify, heappop, heappush

from tower.core import checks
from tower.core.factory import Factory
from tower.core.rails import Decision, Rails, Room, Seat, Start, seat_of
from tower.core.records import Flight, Itinerary


def decide(
    queue: Iterable[Flight],
    *,
    factory: Factory,
    itineraries: Mapping[str, Itinerary],
    alive: Iterable[Seat],
    rails: Rails,
) -> dict[str, Decision]:
    """A decision for every flight of `queue`, by its id.

    Order among those that may start: higher priority; then the chain with the fewest live runs; then the oldest. The
    time grows with the length of `queue` (times its logarithm), however many start.
    """
    room = Room(list(alive))
    flights = {flight.id: flight for flight in queue}
    turns = [_turn(flight, room) for flight in flights.values()]
    heapify(turns)
    decisions: dict[str, Decision] = {}
    while turns:
        turn = heappop(turns)
        flight = flights[turn[-1]]
        if turn != (now := _turn(flight, room)):
            # A start of its chain has put it behind others since.
            heappush(turns, now)
            continue
        itinerary = itineraries[flight.itinerary]
        decision = _decide_one(flight, itinerary, factory, room, rails)
        decisions[flight.id] = decision
        if isinstance(decision, Start):
            agent = factory.agents[flight.receiver]
            own = factory.has_own_worktree(itinerary.pipeline)
            room.start(seat_of(agent, itinerary.id, own_worktree=own), rails.books.estimates.get(agent.name, 0))
    return decisions


Turn = tuple[int, int, float, str]


def _turn(flight: Flight, room: Room) -> Turn:
    return -flight.priority, room.chains[flight.itinerary], flight.created_at, flight.id


def _decide_one(flight: Flight, itinerary: Itinerary, factory: Factory, room: Room, rails: Rails) -> Decision:
    """The checks in their order; the first that fails is the reason."""
    early = (
        checks.factory_stands(rails)
        or checks.route_stands(flight, itinerary, factory)
        or checks.agent_stands(flight, factory)
    )
    if early is not None:
        return early
    agent = factory.agents[flight.receiver]
    return (
        checks.is_approved(flight, agent)
        or checks.chain_stands(itinerary)
        or checks.within_run_cap(itinerary, room)
        or checks.is_due(flight, rails)
        or checks.is_let_work(agent, room, rails)
        or checks.has_slot(agent, factory, room, rails)
        or checks.within_caps(agent, factory, room)
        or checks.circuit_is_closed(agent, room, rails)
        or checks.has_writer_seat(agent, itinerary, factory, room)
        or checks.has_fuel(agent, itinerary, room, rails)
        or checks.has_reserve(agent, factory, room, rails)
        or checks.has_disk(factory, rails)
        or Start()
    )
