"""Joins, carried out: what a delivery, an ending or a person's word does to a chain's barriers, in one transaction.

The rules are `core.joins`', the facts `store.waves`'. Whoever ends a flight calls `look` in the transaction that does
it; whoever may have woken a receiver wakes the dispatcher afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tower.core import joins
from tower.core.errors import ConflictError
from tower.core.factory import Factory
from tower.core.joins import Action, Barrier, Chain, Delivery, Park, Release, Strand, Supersede
from tower.core.records import Event, Flight, Itinerary, Wave
from tower.core.routes import Join, Route, usable
from tower.core.states import FlightState
from tower.engine.tower import Tower
from tower.store import events, flights, itineraries, waves
from tower.store.database import Connection


@dataclass(slots=True)
class _Known:
    """A chain as it is read, and its barriers' records."""

    itinerary: str
    chain: Chain
    waves: dict[str, Wave]
    free: list[str]
    """Parked, and each on its own now: the configuration has the route without a join."""


def deliver(tower: Tower, connection: Connection, flight: Flight, join: Join) -> None:
    """A run has sent `flight`, which is stored as parked, to a joined receiver."""
    known = _read(tower, connection, flight.itinerary, {flight.receiver: join})
    barrier = known.chain.barriers[flight.receiver]
    delivery = next(it for it in barrier.parked if it.flight == flight.id)
    before = known.waves.get(flight.receiver)
    woke_with, run = before.woke_with if before else None, flight.sender.ref or ""
    barrier, done = joins.arrive(
        replace(barrier, parked=tuple(it for it in barrier.parked if it is not delivery)),
        delivery,
        tower.clock(),
        is_answer=woke_with is not None and waves.follows_from(connection, run, woke_with),
    )
    _go_on(tower, connection, known, barrier, done)


def look(tower: Tower, connection: Connection, itinerary: str) -> None:
    """Something of a chain ended, or is not waited for any more: its barriers open, or are given up, at once."""
    if waves.has_any(connection, itinerary):
        known = _read(tower, connection, itinerary)
        for identity in known.free:
            flights.move(connection, identity, FlightState.QUEUED)
            events.append(connection, _told(tower, connection, "flight.released", identity, hold="join"))
        _go_on(tower, connection, known, None, ())


def release(tower: Tower, connection: Connection, itinerary: str, receiver: str, *, person: str) -> tuple[str, ...]:
    """Wake a receiver with what has arrived, on a person's word; returns the flights that it is woken with.

    Raises `ConflictError` when nothing waits there.
    """
    known = _read(tower, connection, itinerary)
    barrier = known.chain.barriers.get(receiver)
    if barrier is None or not barrier.parked:
        raise ConflictError(
            "nothing-parked",
            f"cannot release the join before {receiver}: nothing is parked there in {itinerary}",
            f"see `tower show {itinerary}`",
        )
    barrier, done = joins.by_hand(barrier)
    _go_on(tower, connection, known, barrier, done, by=person)
    return next(it.flights for it in done if isinstance(it, Release))


async def look_at_all(tower: Tower) -> None:
    """After a start, and when a configuration went live: every barrier that waits, by the joins as they are now."""
    await _look_at(tower, await tower.store.read(waves.waiting_chains))


async def look_at_due(tower: Tower) -> None:
    """The barriers that have waited as long as they may."""
    await _look_at(tower, await tower.store.read(partial(waves.waiting_chains, due_by=tower.clock())))


async def _look_at(tower: Tower, chains: Iterable[str]) -> None:
    for itinerary in chains:
        await tower.store.write(partial(look, tower, itinerary=itinerary))
        tower.wake()


def barriers_of(factory: Factory, connection: Connection, itinerary: Itinerary) -> dict[str, Barrier]:
    """The barriers of a chain to which anything was delivered, by receiver, as they stand."""
    found = waves.of_itinerary(connection, itinerary.id)
    if not found:
        return {}
    known = _known(connection, itinerary, factory, found, {})
    return {it.receiver: known.chain.barriers[it.receiver] for it in found if it.receiver in known.chain.barriers}


def words_for(flight: Flight, barriers: Mapping[str, Barrier]) -> str | None:
    """For a flight that is parked, in words, what its barrier waits for."""
    barrier = barriers.get(flight.receiver)
    return barrier.words() if barrier is not None and flight.state is FlightState.PARKED else None


def _read(tower: Tower, connection: Connection, itinerary: str, used: dict[str, Join] | None = None) -> _Known:
    """`used`: joins that a send goes by."""
    found = itineraries.get(connection, itinerary)
    assert found is not None  # noqa: S101 (a foreign key of its flights, and never deleted)
    return _known(connection, found, tower.factory, waves.of_itinerary(connection, itinerary), used or {})


def _known(
    connection: Connection, itinerary: Itinerary, factory: Factory, found: list[Wave], used: dict[str, Join]
) -> _Known:
    serving = usable(factory.routes, itinerary.scope)
    declared = {route.receiver: route.join for route in serving if route.join is not None} | used
    unjoined = {(route.sender, route.receiver) for route in serving if route.join is None}
    known = {wave.receiver: wave for wave in found}
    barriers = {receiver: _barrier(receiver, join, known.get(receiver)) for receiver, join in declared.items()}
    free = []
    for one in waves.parked(connection, itinerary.id):
        barrier = barriers.get(one.receiver)
        if barrier is None or one.sender not in barrier.join.senders:
            # Without a route it waits for the route to come back; a chain whose pipeline is gone has none.
            if (one.sender, one.receiver) in unjoined and not one.is_stranded:
                free.append(one.flight)
            continue
        delivery = Delivery(
            flight=one.flight,
            sender=one.sender,
            hops=one.hops,
            standing=joins.standing(((state, outcome) for _, state, outcome in one.woken_by), barrier.join),
            origin=frozenset(identity for identity, _, _ in one.woken_by),
        )
        barriers[one.receiver] = replace(barrier, parked=(*barrier.parked, delivery))
    chain = Chain(
        routes=tuple(route for route in serving if _takes(factory, route)),
        places=waves.places(connection, itinerary.id),
        barriers=barriers,
    )
    return _Known(itinerary.id, chain, known, free)


def _takes(factory: Factory, route: Route) -> bool:
    """Whether anything can be sent along it."""
    receiver = factory.agents.get(route.receiver)
    return receiver is not None and receiver.enabled


def _barrier(receiver: str, join: Join, wave: Wave | None) -> Barrier:
    if wave is None:
        return Barrier(receiver=receiver, join=join)
    return Barrier(
        receiver=receiver,
        join=join,
        wave=wave.number,
        answered=wave.answered.intersection(join.senders),
        since=wave.since,
        is_given_up=wave.is_given_up,
    )


def _go_on(
    tower: Tower,
    connection: Connection,
    known: _Known,
    barrier: Barrier | None,
    done: tuple[Action, ...],
    *,
    by: str | None = None,
) -> None:
    """Carry out what was done, then all that follows from it."""
    for action in done:
        _carry_out(tower, connection, known, action, by)
    if barrier is not None:
        known.chain = replace(
            known.chain,
            barriers={**known.chain.barriers, barrier.receiver: barrier},
            places=waves.places(connection, known.itinerary),
        )
    known.chain, more = joins.look(known.chain, tower.clock())
    for action in more:
        _carry_out(tower, connection, known, action, None)
    for receiver, one in known.chain.barriers.items():
        wave = known.waves.get(receiver) or Wave(itinerary=known.itinerary, receiver=receiver)
        now = replace(
            wave,
            number=one.wave,
            answered=one.answered,
            since=one.since if one.parked else None,
            is_given_up=one.is_given_up and bool(one.parked),
            due_at=one.due_at,
        )
        if now != wave or (receiver not in known.waves and one.parked):
            waves.save(connection, now)


def _carry_out(tower: Tower, connection: Connection, known: _Known, action: Action, by: str | None) -> None:
    match action:
        case Park(receiver=receiver, flights=parked):
            for identity in parked:
                flights.move(connection, identity, FlightState.PARKED, outcome=None, ended_at=None)
                events.append(connection, _told(tower, connection, "flight.parked", identity))
        case Supersede(flights=superseded, words=words):
            for identity in superseded:
                flights.move(connection, identity, FlightState.SUPERSEDED, reason=words, ended_at=tower.clock())
                events.append(connection, _told(tower, connection, "flight.superseded", identity, words=words))
        case Release(receiver=receiver, flights=released):
            _wake(connection, known, receiver, released)
            told: dict[str, Any] = {"flights": list(released)} | ({"by": by} if by else {})
            events.append(connection, tower.event("join.released", itinerary=known.itinerary, agent=receiver, **told))
        case Strand(receiver=receiver, flights=stranded, missing=missing, words=words):
            reason = (
                f"the join before {receiver} was given up: {words};"
                f" `tower release {known.itinerary} {receiver}` wakes it with what is there"
            )
            for identity in stranded:
                flights.move(connection, identity, FlightState.STRANDED, reason=reason)
            events.append(
                connection,
                tower.event(
                    "join.given-up",
                    itinerary=known.itinerary,
                    agent=receiver,
                    missing=list(missing),
                    flights=list(stranded),
                    words=reason,
                ),
            )


def _wake(connection: Connection, known: _Known, receiver: str, released: tuple[str, ...]) -> None:
    """Queue what wakes a receiver: as one, when there are several."""
    not_before = [flight.not_before for it in released if (flight := flights.get(connection, it)) and flight.not_before]
    for identity in released:
        flights.move(connection, identity, FlightState.QUEUED, not_before=max(not_before, default=None))
    if len(released) > 1:
        waves.join_together(connection, released)
    wave = known.waves.get(receiver) or Wave(itinerary=known.itinerary, receiver=receiver)
    known.waves[receiver] = replace(wave, woke_with=released[0])
    waves.save(connection, known.waves[receiver])


def _told(tower: Tower, connection: Connection, type_: str, identity: str, **data: object) -> Event:
    flight = flights.get(connection, identity)
    assert flight is not None  # noqa: S101 (named by a transaction that reads it)
    return tower.event(
        type_,
        flight=flight.id,
        itinerary=flight.itinerary,
        agent=flight.receiver,
        run=flight.sender.ref,
        sender=flight.sender.kind,
        by=flight.sender.name,
        **data,
    )
