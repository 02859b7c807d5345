"""Sending a flight (message): who may send what to whom, and the transaction that makes it durable.

A person sends to an `entry` agent or into a pipeline and opens a new itinerary (chain); a run sends along a declared
route and spends a hop of the chain that it belongs to. What a request comes to by the configuration says `addressing`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from tower.control.addressing import Message, Request, address
from tower.control.rights import require_run
from tower.core import ids
from tower.core.callers import Caller
from tower.core.costs import dollars
from tower.core.errors import BusyError, ConflictError, RefusedError
from tower.core.factory import PERSON, Agent
from tower.core.failpoint import failpoint
from tower.core.records import Flight, Itinerary, Sender
from tower.core.routes import Join, RouteMode
from tower.core.states import FlightState, HeldReason
from tower.engine import joins
from tower.engine.tower import Tower
from tower.store import events, flights, itineraries, runs
from tower.store.database import DISK_FULL, Connection

__all__ = ("Request", "Sent", "send")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """The flight that stands for a request; `duplicate` when a key, or an earlier attempt, had sent it before."""

    flight: Flight
    duplicate: bool = False


async def send(tower: Tower, caller: Caller, request: Request) -> Sent:
    """Make a flight durable and return it; nothing has started yet.

    Raises what `address` raises, `BusyError` (a full disk), `RefusedError` (no route, no hops or generations left, a
    cancelled chain, too many waiting), `ConflictError` (a key used for something else).
    """
    _check_room(tower)
    run = None if caller.is_person else require_run(caller, "send")
    if run is not None and request.body is not None:
        # An agent may have read what it was forwarded, and its words are stored, shown and told to others.
        request = replace(request, body=tower.redaction.apply(request.body))
    message = address(tower.factory, caller, request)

    def transaction(connection: Connection) -> Sent:
        if run is None:
            sent = _from_person(tower, caller, message, connection)
        else:
            sent = _from_run(tower, run, message, connection)
        failpoint("send.before-commit")
        return sent

    sent = await tower.store.write(transaction)
    failpoint("send.after-commit")
    if not sent.duplicate:
        tower.wake()
    return sent


def _check_room(tower: Tower) -> None:
    if tower.ballast.is_thrown_off:
        raise BusyError(
            DISK_FULL,
            "cannot take a flight: the disk of the state folder is full, and what is left is kept for running work",
            "free some space; it is taken up again within seconds",
        )


def _from_person(tower: Tower, caller: Caller, message: Message, connection: Connection) -> Sent:
    sender = Sender(kind=PERSON, name=caller.name)
    earlier = _same_key(tower, message, sender, None, connection)
    if earlier is not None:
        _check_same_way(message, earlier, connection)
        return Sent(flight=earlier, duplicate=True)
    _check_pending(message.agent, connection)
    return _open(tower, sender, _fresh_chain(tower, message), message, connection)


def _check_same_way(message: Message, earlier: Flight, connection: Connection) -> None:
    chain = itineraries.get(connection, earlier.itinerary)
    if chain is None:
        return
    if (chain.pipeline, chain.flags, chain.choices) != (message.pipeline, message.flags, message.choices):
        raise _reused(message, earlier, "way in, or for other flags or choices")


def _fresh_chain(tower: Tower, message: Message) -> Itinerary:
    settings = tower.factory.settings
    return Itinerary(
        id=tower.new_id(ids.ITINERARY),
        created_at=tower.clock(),
        name=message.name,
        pipeline=message.pipeline,
        flags=message.flags,
        choices=message.choices,
        max_hops=settings.max_hops,
        max_runs=settings.max_runs,
        fuel_limit=message.agent.fuel,
    )


def _open(tower: Tower, sender: Sender, chain: Itinerary, message: Message, connection: Connection) -> Sent:
    itineraries.insert(connection, chain)
    # The trigger is flight 1 of at most max_hops.
    return _queue(tower, sender, chain.id, chain.max_hops - 1, message, connection)


def _from_run(tower: Tower, run_id: str, message: Message, connection: Connection) -> Sent:
    agent, run = message.agent, runs.get(connection, run_id)
    if run is None or run.ended_at is not None:
        raise RefusedError("run-over", "cannot send: the run that asks is over", "only a live run may send")
    itinerary = itineraries.get(connection, run.itinerary)
    if itinerary is None or itinerary.cancelled_at is not None:
        raise RefusedError(
            "chain-cancelled",
            f"cannot send to {agent.name}: a person cancelled this chain",
            "end here; nothing that is sent would start",
        )
    route = tower.factory.route(run.agent, agent.name, itinerary.scope)
    if route is None:
        peers = ", ".join(tower.factory.peers(run.agent, itinerary.scope)) or "nobody"
        raise RefusedError(
            "no-route",
            f"cannot send from {run.agent} to {agent.name}: no route leads there",
            f"{run.agent} may send to {peers}; a person can add a [[routes]] entry",
        )
    sender = Sender(kind="agent", name=run.agent, ref=run.id)
    earlier = _same_key(tower, message, sender, run.itinerary, connection) or _echo(
        run.follows_run, message, connection
    )
    if earlier is not None:
        return Sent(flight=earlier, duplicate=True)
    _check_fuel(itinerary, agent)
    if route.join is None:
        _check_pending(agent, connection)
    woken_by = flights.of_run(connection, run.id)
    if message.priority is None:
        message = replace(message, priority=max((flight.priority for flight in woken_by), default=0))
    if route.mode is RouteMode.SPAWN:
        return _open(tower, sender, _spawned(tower, itinerary, message), message, connection)
    return _queue(tower, sender, itinerary.id, _hops_left(woken_by, agent) - 1, message, connection, route.join)


def _hops_left(woken_by: Iterable[Flight], agent: Agent) -> int:
    left = min((flight.hops_remaining for flight in woken_by), default=0)
    if left < 1:
        raise RefusedError(
            "no-hops",
            f"cannot send to {agent.name}: this chain has no hops left",
            "report what you have; a person can raise defaults.max_hops and send anew",
        )
    return left


def _spawned(tower: Tower, parent: Itinerary, message: Message) -> Itinerary:
    """A chain with fresh budgets, opened by a run; it keeps scope, flags and choices of the one that opened it."""
    settings = tower.factory.settings
    if parent.spawn_generation >= settings.max_spawn_generations:
        raise RefusedError(
            "no-spawn",
            f"cannot send to {message.to}: its route opens a chain, and this one lies"
            f" {parent.spawn_generation} below the first already"
            f" (defaults.max_spawn_generations is {settings.max_spawn_generations})",
            "report what you have; a person can raise the limit and send anew",
        )
    return replace(
        _fresh_chain(tower, message),
        pipeline=parent.pipeline,
        flags=parent.flags,
        choices=parent.choices,
        narrowing=parent.narrowing,
        spawn_generation=parent.spawn_generation + 1,
        parent=parent.id,
    )


def _queue(
    tower: Tower,
    sender: Sender,
    itinerary: str,
    hops: int,
    message: Message,
    connection: Connection,
    join: Join | None = None,
) -> Sent:
    """Store the flight: in the queue, or before the barrier of its receiver."""
    flight = _flight(tower, sender, itinerary, hops, message, is_parked=join is not None)
    flights.insert(connection, flight)
    if join is not None:
        joins.deliver(tower, connection, flight, join)
        return Sent(flight=flights.get(connection, flight.id) or flight)
    told = tower.event(
        "flight.queued",
        flight=flight.id,
        itinerary=itinerary,
        agent=flight.receiver,
        run=sender.ref,
        sender=sender.kind,
        by=sender.name,
    )
    events.append(connection, told)
    return Sent(flight=flight)


def _flight(tower: Tower, sender: Sender, itinerary: str, hops: int, message: Message, *, is_parked: bool) -> Flight:
    # What is parked waits for more than the ground stop.
    stop = None if is_parked else tower.ground_stop
    return Flight(
        id=tower.new_id(ids.FLIGHT),
        itinerary=itinerary,
        sender=sender,
        receiver=message.to,
        body=message.body,
        created_at=tower.clock(),
        state=FlightState.PARKED if is_parked else FlightState.HELD if stop else FlightState.QUEUED,
        held_reason=HeldReason.GROUND_STOP if stop else None,
        reason=f"ground stop: {stop.words()}; `tower ground-stop off` releases it" if stop else None,
        hops_remaining=hops,
        priority=message.priority or 0,
        key=message.key,
        not_before=message.not_before,
    )


def _same_key(
    tower: Tower, message: Message, sender: Sender, itinerary: str | None, connection: Connection
) -> Flight | None:
    if message.key is None:
        return None
    earlier = flights.by_key(
        connection,
        key=message.key,
        receiver=message.to,
        sender=sender,
        itinerary=itinerary,
        since=tower.clock() - flights.KEY_WINDOW_SEC,
    )
    if earlier is not None and earlier.body != message.body:
        raise _reused(message, earlier, "body")
    return earlier


def _reused(message: Message, earlier: Flight, what: str) -> ConflictError:
    return ConflictError(
        "key-reused",
        f"cannot use the key {message.key!r} again: within 24 hours it stood for another {what} ({earlier.id})",
        "use a new key for a new message",
    )


def _echo(earlier_run: str | None, message: Message, connection: Connection) -> Flight | None:
    """What an interrupted run had sent already, when the run that took over sends the same again."""
    while earlier_run is not None:
        for flight in flights.sent_by(connection, earlier_run):
            if flight.receiver == message.to and flight.body == message.body:
                return flight
        before = runs.get(connection, earlier_run)
        earlier_run = before.follows_run if before else None
    return None


def _check_fuel(itinerary: Itinerary, agent: Agent) -> None:
    """A chain that has spent its Fuel sends nothing more, into no chain."""
    if itinerary.fuel_spent >= itinerary.fuel_limit:
        raise RefusedError(
            "no-fuel",
            f"cannot send to {agent.name}: this chain has spent {dollars(itinerary.fuel_spent)} of its"
            f" {dollars(itinerary.fuel_limit)} of Fuel",
            f"report what you have; a person can add to it with `tower refuel {itinerary.id} USD`",
        )


def _check_pending(agent: Agent, connection: Connection) -> None:
    if agent.max_pending is not None and flights.pending_for(connection, agent.name) >= agent.max_pending:
        raise RefusedError(
            "max-pending",
            f"cannot send to {agent.name}: {agent.max_pending} flights wait for it already",
            f"wait for it to catch up, or raise agents.{agent.name}.max_pending",
        )
