"""Sending a flight (message): who may send what to whom, and the transaction that makes it durable.

A person sends to an `entry` agent and opens a new itinerary (chain); a run sends along a declared route and spends
a hop of the chain that it belongs to.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from tower.core import ids
from tower.core.callers import Caller
from tower.core.errors import BusyError, ConflictError, InvalidError, NotFoundError, RefusedError
from tower.core.factory import PERSON, Agent
from tower.core.failpoint import failpoint
from tower.core.records import Flight, Itinerary, Run, Sender
from tower.core.routes import RouteMode
from tower.core.states import FlightState, HeldReason
from tower.engine.tower import Tower
from tower.store import events, flights, itineraries, runs
from tower.store.database import DISK_FULL, Connection

MAX_KEY: Final = 200
MAX_NAME: Final = 200
MAX_PRIORITY: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What somebody wants to send. `not_before` is seconds since the epoch."""

    to: str
    body: str
    name: str | None = None
    key: str | None = None
    priority: int = 0
    not_before: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """The flight that stands for a request; `duplicate` when a key, or an earlier attempt, had sent it before."""

    flight: Flight
    duplicate: bool = False


async def send(tower: Tower, caller: Caller, request: Request) -> Sent:
    """Make a flight durable and return it; nothing has started yet.

    Raises `BusyError` (a full disk), `InvalidError` (body, key, name out of bounds), `NotFoundError` (no such agent),
    `RefusedError` (no entry, no route, no hops or generations left, a cancelled chain, too many waiting),
    `ConflictError` (a key used for another body).
    """
    _check_room(tower)
    check(request, tower.factory.settings.max_body_bytes)
    agent = _receiver(tower, request.to)
    if caller.is_person:
        _check_entry(tower, agent)

    def transaction(connection: Connection) -> Sent:
        if caller.run is None:
            sent = _from_person(tower, caller, agent, request, connection)
        else:
            sent = _from_run(tower, caller.run, agent, request, connection)
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


def check(request: Request, max_body: int) -> None:
    """Raise `InvalidError` for a request that no rule could let pass."""
    size = len(request.body.encode("utf-8", errors="surrogatepass"))
    if not request.body.strip():
        raise InvalidError("empty-body", "cannot send an empty body", "say what the agent should do")
    if any("\ud800" <= character <= "\udfff" for character in request.body):
        raise InvalidError(
            "not-text", "cannot send a body that is not UTF-8 text", "send text; name files by their path"
        )
    if size > max_body:
        raise InvalidError(
            "body-too-large",
            f"cannot send a body of {size} bytes: layover.max_body_bytes is {max_body}",
            "put the material into a file that the agent can read and send its path, or raise the limit",
        )
    for label, text, most in (("key", request.key, MAX_KEY), ("name", request.name, MAX_NAME)):
        if text is not None and not (0 < len(text) <= most and text.isprintable()):
            raise InvalidError(
                f"bad-{label}", f"cannot use this {label}", f"give 1 to {most} printable characters on one line"
            )
    if abs(request.priority) > MAX_PRIORITY:
        raise InvalidError(
            "bad-priority", f"cannot use priority {request.priority}", f"give {-MAX_PRIORITY} to {MAX_PRIORITY}"
        )


def _receiver(tower: Tower, name: str) -> Agent:
    agent = tower.factory.agents.get(name)
    if agent is None:
        known = ", ".join(sorted(tower.factory.agents)) or "none"
        raise NotFoundError("unknown-agent", f"cannot find an agent called {name[:80]!r}", f"there are: {known}")
    if not agent.enabled:
        raise RefusedError(
            "disabled",
            f"cannot send to {name}: it is disabled",
            f"set agents.{name}.enabled = true in the configuration",
        )
    return agent


def _check_entry(tower: Tower, agent: Agent) -> None:
    if not agent.entry:
        doors = ", ".join(sorted(one.name for one in tower.factory.agents.values() if one.entry)) or "none"
        raise RefusedError(
            "no-entry",
            f"cannot send to {agent.name}: it is not an entry, so only agents with a route may send to it",
            f"send to an entry agent ({doors}), or set agents.{agent.name}.entry = true",
        )


def _from_person(tower: Tower, caller: Caller, agent: Agent, request: Request, connection: Connection) -> Sent:
    sender = Sender(kind=PERSON, name=caller.name)
    earlier = _same_key(tower, agent, request, sender, None, connection)
    if earlier is not None:
        return Sent(flight=earlier, duplicate=True)
    _check_pending(agent, connection)
    return _open(tower, sender, _fresh_chain(tower, request), request, connection)


def _fresh_chain(tower: Tower, request: Request) -> Itinerary:
    settings = tower.factory.settings
    return Itinerary(
        id=tower.new_id(ids.ITINERARY),
        created_at=tower.clock(),
        name=request.name,
        max_hops=settings.max_hops,
        max_runs=settings.max_runs,
        fuel_limit=settings.fuel,
    )


def _open(tower: Tower, sender: Sender, chain: Itinerary, request: Request, connection: Connection) -> Sent:
    itineraries.insert(connection, chain)
    # The trigger is flight 1 of at most max_hops.
    return _queue(tower, sender, chain.id, chain.max_hops - 1, request, connection)


def _from_run(tower: Tower, run_id: str, agent: Agent, request: Request, connection: Connection) -> Sent:
    run = runs.get(connection, run_id)
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
    earlier = _same_key(tower, agent, request, sender, run.itinerary, connection) or _echo(
        run.follows_run, request, connection
    )
    if earlier is not None:
        return Sent(flight=earlier, duplicate=True)
    _check_pending(agent, connection)
    if route.mode is RouteMode.SPAWN:
        return _open(tower, sender, _spawned(tower, itinerary, agent, request), request, connection)
    return _queue(tower, sender, itinerary.id, _hops_left(run, agent, connection) - 1, request, connection)


def _hops_left(run: Run, agent: Agent, connection: Connection) -> int:
    left = min((flight.hops_remaining for flight in flights.of_run(connection, run.id)), default=0)
    if left < 1:
        raise RefusedError(
            "no-hops",
            f"cannot send to {agent.name}: this chain has no hops left",
            "report what you have; a person can raise defaults.max_hops and send anew",
        )
    return left


def _spawned(tower: Tower, parent: Itinerary, agent: Agent, request: Request) -> Itinerary:
    """A chain with fresh budgets, opened by a run; it keeps the scope and the flags of the chain that opened it."""
    settings = tower.factory.settings
    if parent.spawn_generation >= settings.max_spawn_generations:
        raise RefusedError(
            "no-spawn",
            f"cannot send to {agent.name}: its route opens a chain, and this one lies"
            f" {parent.spawn_generation} below the first already"
            f" (defaults.max_spawn_generations is {settings.max_spawn_generations})",
            "report what you have; a person can raise the limit and send anew",
        )
    return replace(
        _fresh_chain(tower, request),
        pipeline=parent.pipeline,
        flags=parent.flags,
        narrowing=parent.narrowing,
        spawn_generation=parent.spawn_generation + 1,
        parent=parent.id,
    )


def _queue(tower: Tower, sender: Sender, itinerary: str, hops: int, request: Request, connection: Connection) -> Sent:
    stop = tower.ground_stop
    flight = Flight(
        id=tower.new_id(ids.FLIGHT),
        itinerary=itinerary,
        sender=sender,
        receiver=request.to,
        body=request.body,
        created_at=tower.clock(),
        state=FlightState.HELD if stop else FlightState.QUEUED,
        held_reason=HeldReason.GROUND_STOP if stop else None,
        reason=f"ground stop: {stop.words()}; `tower ground-stop off` releases it" if stop else None,
        hops_remaining=hops,
        priority=request.priority,
        key=request.key,
        not_before=request.not_before,
    )
    flights.insert(connection, flight)
    events.append(
        connection,
        tower.event(
            "flight.queued",
            flight=flight.id,
            itinerary=itinerary,
            agent=flight.receiver,
            run=sender.ref,
            sender=sender.kind,
            by=sender.name,
        ),
    )
    return Sent(flight=flight)


def _same_key(
    tower: Tower, agent: Agent, request: Request, sender: Sender, itinerary: str | None, connection: Connection
) -> Flight | None:
    if request.key is None:
        return None
    earlier = flights.by_key(
        connection,
        key=request.key,
        receiver=agent.name,
        sender=sender,
        itinerary=itinerary,
        since=tower.clock() - flights.KEY_WINDOW_SEC,
    )
    if earlier is not None and earlier.body != request.body:
        raise ConflictError(
            "key-reused",
            f"cannot use the key {request.key!r} again: within 24 hours it stood for another body ({earlier.id})",
            "use a new key for a new message",
        )
    return earlier


def _echo(earlier_run: str | None, request: Request, connection: Connection) -> Flight | None:
    """What an interrupted run had sent already, when the run that took over sends the same again."""
    while earlier_run is not None:
        for flight in flights.sent_by(connection, earlier_run):
            if flight.receiver == request.to and flight.body == request.body:
                return flight
        before = runs.get(connection, earlier_run)
        earlier_run = before.follows_run if before else None
    return None


def _check_pending(agent: Agent, connection: Connection) -> None:
    if agent.max_pending is not None and flights.pending_for(connection, agent.name) >= agent.max_pending:
        raise RefusedError(
            "max-pending",
            f"cannot send to {agent.name}: {agent.max_pending} flights wait for it already",
            f"wait for it to catch up, or raise agents.{agent.name}.max_pending",
        )
