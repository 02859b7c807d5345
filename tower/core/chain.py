"""The state of an itinerary (chain), derived from facts each time it is asked for, so that it cannot go stale."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from enum import StrEnum

from tower.core.states import ALIVE, FlightState, HeldReason, Outcome


class ChainState(StrEnum):
    """How a chain stands as a whole."""

    WORKING = "working"
    HELD = "held"
    WAITING = "waiting"
    STALLED = "stalled"
    HALTED = "halted"
    INTERRUPTED = "interrupted"
    CANCELLED = "cancelled"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainFacts:
    """What is known of a chain's flights: the states that occur, why held ones are held, how landed ones ended."""

    flights: Set[FlightState]
    holds: Set[HeldReason] = frozenset()
    outcomes: Set[Outcome] = frozenset()
    cancelled: bool = False
    wants_help: bool = False
    """A run of it ended on a fatal request for help that nobody has resolved."""


FOR_A_PERSON = frozenset({HeldReason.APPROVAL, HeldReason.RECOVERY})


def state_of(facts: ChainFacts) -> ChainState:
    """Derive the state: what still moves comes first, then what waits, then how it came to an end."""
    flights = facts.flights
    if flights & ALIVE or FlightState.QUEUED in flights:
        return ChainState.WORKING
    if facts.wants_help and not facts.cancelled:
        return ChainState.WAITING
    if FlightState.HELD in flights:
        return ChainState.WAITING if facts.holds & FOR_A_PERSON else ChainState.HELD
    if facts.cancelled:
        return ChainState.CANCELLED
    if FlightState.HALTED in flights:
        return ChainState.HALTED
    if flights & {FlightState.PARKED, FlightState.STRANDED}:
        return ChainState.STALLED
    if FlightState.DEAD in flights:
        return ChainState.INTERRUPTED
    if flights == {FlightState.CANCELLED}:
        return ChainState.CANCELLED
    return ChainState.FINISHED
