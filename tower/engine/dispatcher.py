"""The dispatcher: looks at the queue when woken, lets `core.admission` decide, claims, and hands over to `conduct`.

The claim is one transaction for everything that starts in a round, and it is on disk before anything is spawned.
How a run is prepared is left to `compose`, how it is carried out to `conduct`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import anyio

from tower.core import ids
from tower.core.budget import Books
from tower.core.errors import BusyError
from tower.core.factory import Factory
from tower.core.failpoint import failpoint
from tower.core.fences import inline
from tower.core.rails import Hold, Refuse, Start, seat_of
from tower.core.records import Event, Flight, Process, Run
from tower.core.residence import ResidentState
from tower.core.states import FlightState, HeldReason, Outcome, RunState
from tower.engine import circuits, joins, money
from tower.engine.compose import Prepared, prepare
from tower.engine.conduct import conduct
from tower.engine.looking import look
from tower.engine.recover import see_through
from tower.engine.tower import RESIDENTS, WORK, LiveRun, OpenTurn, Tower, log
from tower.engine.turns import conduct_turn, see_turn_through
from tower.runners import effort_of
from tower.store import events, flights, itineraries, runs
from tower.store.database import Connection
from tower.system.cgroups import group_of

BODY_HEAD: Final = 300
"""Characters of a body that the event of a flight shows which waits for approval."""

PATIENCE_SEC: Final = 60.0
"""The dispatcher looks again at least so often, whatever wakes it."""

RETRY_SEC: Final = 1.0
"""Pause after the store refused a claim (a full disk): nothing was started, so it is simply tried again."""


@dataclass(slots=True)
class _Round:
    """What one look at the queue led to."""

    factory: Factory
    """By which it was decided."""
    books: Books
    starts: list[Prepared] = field(default_factory=list)
    holds: list[tuple[Flight, Hold]] = field(default_factory=list)
    refusals: list[tuple[Flight, Refuse]] = field(default_factory=list)


async def dispatch(tower: Tower, *, alive: Callable[[], None], every: float = PATIENCE_SEC) -> None:
    """Start what may start, for ever. `alive` is called at least each `every` seconds (the watchdog's sign of life)."""
    while True:
        with tower.bus.listening(WORK) as woken:
            alive()
            pause = every
            if not tower.stopping:
                try:
                    due = await _round(tower)
                    pause = every if due is None else min(every, max(0.0, due - tower.clock()))
                except BusyError as error:
                    log.error("dispatch.failed", error=str(error))
                    pause = RETRY_SEC
            with anyio.move_on_after(pause):
                await woken.wait()


async def _round(tower: Tower) -> float | None:
    """One look at the queue; returns when the next flight falls due by the clock, if any waits for it."""
    factory = tower.factory
    seen = await look(tower)
    queue, chains, due = seen.queue, seen.chains, seen.due
    if not queue:
        return due
    _want_residents(tower, queue)
    decisions = seen.decide(tower)
    result = _Round(factory, seen.rails.books)
    for flight in queue:
        match decisions[flight.id]:
            case Start():
                prepared = await prepare(tower, factory, flight, chains[flight.itinerary])
                if isinstance(prepared, Hold):
                    result.holds.append((flight, prepared))
                elif prepared is not None:
                    result.starts.append(prepared)
            case Hold() as hold:
                result.holds.append((flight, hold))
            case Refuse() as refusal:
                result.refusals.append((flight, refusal))
            case _:
                pass
    if result.starts or result.holds or result.refusals:
        failpoint("claim.before")
        claimed = await tower.store.write(partial(_carry_out, tower, result))
        failpoint("claim.after")
        for prepared, run in claimed:
            _begin(tower, prepared, run)
        if result.holds or result.refusals or len(claimed) < len(result.starts):
            # A slot that was given away and not taken, or a place at the head of the queue, is the next one's at once.
            tower.wake()
    return due


def _want_residents(tower: Tower, queue: Sequence[Flight]) -> None:
    """A resident that was ended because nothing came is started again for what has come now."""
    for name in {flight.receiver for flight in queue} & tower.residents.keys():
        resident = tower.residents[name]
        if resident.residence.idle:
            resident.residence = resident.residence.wanted()
            tower.bus.pulse(RESIDENTS)


def _begin(tower: Tower, prepared: Prepared, run: Run) -> None:
    """Have a claimed run carried out by a task of its own."""
    live = LiveRun(
        run=run,
        agent=prepared.agent,
        runner=prepared.runner,
        seat=seat_of(
            prepared.agent,
            run.itinerary,
            own_worktree=prepared.factory.has_own_worktree(prepared.chain.pipeline),
        ),
        stopping=_told_to_everybody(tower),
    )
    tower.live[run.id] = live
    if prepared.turn is None:
        task = partial(conduct, tower, live, prepared)
        tower.tasks.start_soon(see_through, tower, live, task, name=f"conduct {run.id}")
        return
    turn = OpenTurn(live=live, number=prepared.turn.number)
    resident = tower.residents.get(prepared.agent.name)
    if resident is None or resident.process is None or resident.process.id != run.process:
        turn.is_cut_off = True
        tower.tasks.start_soon(see_turn_through, tower, None, turn, name=f"turn {run.id}")
        return
    resident.process = replace(resident.process, turns=turn.number)
    resident.turn = turn
    if resident.residence.state is ResidentState.READY:
        resident.residence = resident.residence.turn_began()
    tower.tasks.start_soon(conduct_turn, tower, resident, turn, prepared, name=f"turn {run.id}")


def _told_to_everybody(tower: Tower) -> str | None:
    """The word with which all runs were asked to end since the queue was looked at, and so this one as well."""
    if tower.ground_stop is not None:
        return "halted"
    return "stop" if tower.stopping else None


def _carry_out(tower: Tower, result: _Round, connection: Connection) -> list[tuple[Prepared, Run]]:
    """The transaction of a round. A flight that moved meanwhile (cancelled) is passed over."""
    # What an edit may have mended meanwhile is decided anew: nobody would release such a hold.
    still_so = tower.factory is result.factory
    holds = result.holds if still_so else []
    for flight, hold in holds:
        release_at = None if hold.seconds is None else tower.clock() + hold.seconds
        moved = flights.move(
            connection,
            flight.id,
            FlightState.HELD,
            held_reason=hold.reason,
            reason=hold.words,
            release_at=release_at,
        )
        if moved:
            events.append(connection, _held(tower, flight, hold))
    if any(hold.reason is HeldReason.RESERVE for _, hold in holds):
        money.tell_marks(tower, connection)
    for flight, refusal in result.refusals:
        moved = flights.move(
            connection,
            flight.id,
            FlightState.REFUSED,
            reason=refusal.words,
            outcome=Outcome.REFUSED,
            ended_at=tower.clock(),
        )
        if moved:
            events.append(connection, _told(tower, "flight.refused", flight, words=refusal.words))
            joins.look(tower, connection, flight.itinerary)
    claimed = []
    for prepared in result.starts:
        expected = result.books.estimates.get(prepared.agent.name, 0)
        # A run that ended meanwhile may have cost more than was set aside for it.
        can_pay = money.can_pay(result.factory, connection, prepared.flight.itinerary, expected, tower.clock())
        if can_pay and flights.move(connection, prepared.flight.id, FlightState.STARTING):
            claimed.append((prepared, _claim(tower, prepared, expected, connection)))
    return claimed


def _held(tower: Tower, flight: Flight, hold: Hold) -> Event:
    """The event of a hold. One that a person decides about says what it is."""
    told = _told(tower, "flight.held", flight, reason=hold.reason, words=hold.words)
    if hold.reason is not HeldReason.APPROVAL:
        return told
    return replace(told, data={**told.data, "body": inline(flight.body, BODY_HEAD)})


def _claim(tower: Tower, prepared: Prepared, expected: int, connection: Connection) -> Run:
    flight, agent = prepared.flight, prepared.agent
    now = tower.clock()
    turn = prepared.turn
    process = turn.process if turn else ids.PROCESS + prepared.run_id.removeprefix(ids.RUN)
    run = Run(
        id=prepared.run_id,
        agent=agent.name,
        runner=agent.runner,
        generation=prepared.factory.generation,
        itinerary=flight.itinerary,
        process=process,
        state=RunState.STARTING,
        attempt=flight.attempt,
        cause=flight.cause,
        number=runs.next_number(connection, agent.name),
        queued_at=flight.created_at,
        claimed_at=now,
        flights=tuple(it.id for it in prepared.flights),
        follows_run=flight.follows_run,
        prompt_sha256=agent.instructions.sha256(prepared.chain.flags),
        prompt_files=agent.instructions.files(prepared.chain.flags),
        estimate_tokens=prepared.estimate_tokens,
        token_sha256=prepared.token_sha256 if turn is None else None,
        model_asked=agent.model,
        effort=agent.effort,
        effort_sent=effort_of(prepared.runner, agent),
        tier=agent.tier,
        context=agent.context,
        estimate=expected,
        reserved=expected,
        turn=turn.number if turn else None,
    )
    if turn is None:
        made = Process(
            id=process,
            agent=agent.name,
            folder=str(tower.state.run_folder(agent.name, prepared.run_id)),
            created_at=now,
            cgroup=group_of(tower.cgroup, process.partition("_")[2]),
        )
        runs.insert_process(connection, made)
    else:
        runs.update_process(connection, process, turns=turn.number)
    runs.insert(connection, run)
    itineraries.count_run(connection, flight.itinerary)
    money.set_aside(tower, connection, run)
    circuits.claimed(connection, run)
    events.append(connection, _told(tower, "run.claimed", flight, run=run.id, attempt=run.attempt))
    return run


def _told(tower: Tower, type_: str, flight: Flight, run: str | None = None, **data: object) -> Event:
    return tower.event(type_, flight=flight.id, itinerary=flight.itinerary, agent=flight.receiver, run=run, **data)
