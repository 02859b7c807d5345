"""Ending flights that do not run: what waits, and what a ground stop had ended. What runs is asked to end instead."""

from __future__ import annotations

from tower.core.records import Flight
from tower.core.states import WAITING, FlightState, Outcome
from tower.engine.tower import Tower
from tower.store import events, flights
from tower.store.database import Connection


def end_waiting(tower: Tower, connection: Connection, flight: Flight, *, person: str) -> bool:
    """Cancel a flight if nothing of it runs, and those that a join released with it; returns whether it was so.

    What that means for the joins of its chain is for `joins.look`, when all is cancelled that is to be.
    """
    if flight.state not in WAITING | {FlightState.HALTED, FlightState.STRANDED}:
        return False
    flights.move(
        connection,
        flight.joined or flight.id,
        FlightState.CANCELLED,
        outcome=Outcome.CANCELLED,
        reason=f"cancelled by {person}",
        ended_at=tower.clock(),
    )
    told = tower.event(
        "flight.cancelled", flight=flight.id, itinerary=flight.itinerary, agent=flight.receiver, by=person
    )
    events.append(connection, told)
    return True
