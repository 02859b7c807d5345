"""Circuits of runners in the engine's transactions: opened and closed by how runs end, reset by a person.

What follows from an end is decided by `core.circuit`; flights that waited are queued again when there is reason to.
"""

from __future__ import annotations

from dataclasses import replace

from tower.core import circuit as core
from tower.core.circuit import Circuit
from tower.core.records import Flight, Run
from tower.core.states import HeldReason, Outcome
from tower.engine.money import queue_again
from tower.engine.tower import Tower
from tower.store import circuits, events, flights, ledger, queue
from tower.store.database import Connection

ALL_HELD = 100_000


def claimed(connection: Connection, run: Run) -> None:
    """A run of a runner whose circuit is half open is the one that tries it."""
    found = circuits.get(connection, run.runner)
    if found is not None:
        circuits.put(connection, replace(found, probe=run.id))


def could_not_work(
    tower: Tower, connection: Connection, run: Run, *, reason: str | None, reset_at: float | None
) -> Circuit:
    """A run ended as unavailable: the circuit of its runner is open from now on."""
    before, now = circuits.get(connection, run.runner), tower.clock()
    after = core.failed(
        before,
        runner=run.runner,
        run=run.id,
        reason=reason or "its program was unavailable",
        now=now,
        reset_at=reset_at,
        jitter=tower.jitter(),
    )
    circuits.put(connection, after)
    if before is None or after.until != before.until:
        told = tower.event(
            "circuit.opened",
            run=run.id,
            agent=run.agent,
            runner=run.runner,
            reason=after.reason,
            until=after.until,
            seconds=after.until - now,
        )
        events.append(connection, told)
        for flight in _held(tower, connection, run.runner):
            flights.delay(connection, flight.id, after.until)
    return after


def ended(tower: Tower, connection: Connection, run: Run, outcome: Outcome) -> None:
    """A run ended otherwise; if it was the one that tried its runner, and that could work, everything goes on."""
    before = circuits.get(connection, run.runner)
    after = core.ended(before, run=run.id, outcome=outcome)
    if after is not None and after is not before:
        circuits.put(connection, after)
    elif before is not None and after is None:
        _close(tower, connection, run.runner, by=None)


def reset(tower: Tower, connection: Connection, runner: str, *, by: str) -> bool:
    """Close a circuit on a person's word; returns whether it was open, or half open."""
    found = circuits.get(connection, runner) is not None
    if found:
        _close(tower, connection, runner, by=by)
    return found


def offer_probes(tower: Tower, connection: Connection) -> None:
    """Queue one held flight of each runner whose time has come, unless one is on its way already."""
    for runner, found in circuits.every(connection).items():
        if found.probe is not None or found.is_open(tower.clock()):
            continue
        agents = _agents(tower, runner)
        if not any(queue.is_queued_for(connection, agent) for agent in agents):
            for flight in _held(tower, connection, runner)[:1]:
                queue_again(tower, connection, flight)


def _close(tower: Tower, connection: Connection, runner: str, *, by: str | None) -> None:
    circuits.close(connection, runner)
    events.append(connection, tower.event("circuit.closed", runner=runner, by=by))
    for flight in _held(tower, connection, runner):
        queue_again(tower, connection, flight)


def _agents(tower: Tower, runner: str) -> set[str]:
    return {agent.name for agent in tower.factory.agents.values() if agent.runner == runner}


def _held(tower: Tower, connection: Connection, runner: str) -> list[Flight]:
    agents = _agents(tower, runner)
    held = ledger.first_held(connection, HeldReason.QUOTA, ALL_HELD)
    return [flight for flight in held if flight.receiver in agents]
