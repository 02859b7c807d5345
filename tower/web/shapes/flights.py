"""Flights: messages to agents."""

from __future__ import annotations

from pydantic import Field

from tower.core.states import FlightState, HeldReason, Outcome
from tower.web.shapes.base import Shape, Time
from tower.web.shapes.runs import Run


class Sender(Shape):
    kind: str = Field(description="person, agent, schedule, layover, recovery, steer or reply")
    name: str
    ref: str | None = Field(description="the run, or what else it was sent from")


class Flight(Shape):
    """One message to one agent."""

    id: str
    itinerary: str
    sender: Sender
    to: str
    body: str
    created_at: Time
    state: FlightState
    hops_remaining: int
    priority: int
    key: str | None
    not_before: Time | None
    held_reason: HeldReason | None
    reason: str | None
    release_at: Time | None
    attempt: int
    outcome: Outcome | None
    ended_at: Time | None
    approved_by: str | None
    approval_note: str | None
    joined: str | None = Field(description="the first of the flights that a join released together with it")
    waits_for: str | None = Field(default=None, description="in words; present while it waits")


class Flights(Shape):
    flights: list[Flight]


class Sent(Shape):
    flight: Flight
    itinerary: str
    duplicate: bool = Field(description="this very flight had been sent before; nothing new was made")


class FlightWithRuns(Flight):
    runs: list[Run]
