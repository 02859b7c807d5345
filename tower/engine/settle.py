"""Settling a run: judging it by its evidence, and writing down in one transaction what becomes of its flights.

The verdict is `core.outcome`'s, what follows from it `core.recovery`'s. Here the evidence is read from the run's
folder and the decision becomes rows and events. A run that never started is settled by `unstarted`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio.to_thread

from tower.core import recovery
from tower.core.costs import CostSource
from tower.core.evidence import Reading
from tower.core.launch import ExitRecord
from tower.core.outcome import Verdict, verdict
from tower.core.pricing import Price, charge, price
from tower.core.records import Run
from tower.core.states import Cause, FlightState, HeldReason, Interruption, Outcome, RunState
from tower.engine import circuits, joins, money, trees
from tower.engine.evidence import end_what_is_left, gather, remove_traces
from tower.engine.tower import LiveRun, Tower, log
from tower.store import events, flights, itineraries, runs
from tower.store.database import Connection
from tower.system.files import write_private
from tower.system.runrecords import last_sign, started_at


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """All that one settling transaction writes."""

    run: Run
    started_at: float | None
    ended_at: float
    exit: ExitRecord | None
    reading: Reading
    verdict: Verdict
    follows: recovery.Next | None
    """None: the flights have landed with the verdict."""
    price: Price = field(default_factory=lambda: Price(source=CostSource.UNREPORTED))
    out_to: int | None = None
    err_to: int | None = None
    """Of a turn: where its part of the process's output ends."""
    left: tuple[int, ...] = ()
    """Processes of the run that could not be ended: nothing of it is repeated while they may be at work."""

    @property
    def is_unavailable(self) -> bool:
        """Its program could not work at all."""
        return self.verdict.outcome is Outcome.UNAVAILABLE

    @property
    def reset_at(self) -> float | None:
        """When the program can work again, as far as it said so."""
        if self.reading.reset_at is None and self.reading.retry_after is not None:
            return self.ended_at + self.reading.retry_after
        return self.reading.reset_at


async def settle(
    tower: Tower,
    live: LiveRun,
    *,
    without_exit: Interruption = Interruption.LOST,
    seen_at: float | None = None,
    left: tuple[int, ...] | None = None,
) -> None:
    """Settle a run of which nothing is alive any more, and free its slot and seat.

    `without_exit` is what it means that no exit was recorded; `seen_at` is when the run was last known to live; `left`
    are the processes of it that would not end, None while nobody has looked for any.
    """
    process = await tower.store.read(lambda connection: runs.process(connection, live.run.process))
    if process is not None and left is None:
        left = await end_what_is_left(tower, live.run.id, process)
    elif process is not None:
        remove_traces(tower, live.run.id, process)
    settlement = replace(await _judge(tower, live, without_exit, seen_at), left=left or ())
    await write_down(tower, live, settlement)


async def write_down(tower: Tower, live: LiveRun, settlement: Settlement) -> None:
    """Keep the answer, commit a settlement, however long that takes, and free slot and seat."""
    if settlement.verdict.answer is not None:
        await anyio.to_thread.run_sync(_keep_answer, _folder(tower, live.run), settlement.verdict.answer)
    # While the seat is held, so that nothing of the next writer's is taken for this one's.
    run = await tower.store.read(lambda connection: runs.get(connection, live.run.id))
    tree, notes = await trees.name_after(tower, run or live.run)
    notes += await trees.suspicion(tower, run or live.run)

    def transaction(connection: Connection) -> None:
        runs.update(connection, live.run.id, tree_after=tree)
        runs.add_notes(connection, live.run.id, notes)
        _transaction(tower, settlement, connection)

    await tower.persist(transaction)
    tower.free(live)


def _folder(tower: Tower, run: Run) -> Path:
    return tower.state.run_folder(run.agent, run.id)


def _keep_answer(folder: Path, answer: str) -> None:
    try:
        write_private(folder / "answer.txt", answer.encode(), durable=False)  # the log has it as well
    except OSError as error:
        log.warning("answer.lost", folder=str(folder), error=str(error))


async def _judge(tower: Tower, live: LiveRun, without_exit: Interruption, seen_at: float | None) -> Settlement:
    folder = _folder(tower, live.run)
    evidence = await anyio.to_thread.run_sync(partial(gather, live, folder, without_exit))
    judged = verdict(evidence)
    record = evidence.exit
    began = started_at(folder)
    if began is None and not folder.exists():
        # A power cut took it: in doubt, a run counts as begun, and it cannot have before it was claimed.
        began = live.run.claimed_at
    ended = record.ended_at if record else max(seen_at or 0.0, last_sign(folder) or 0.0) or tower.clock()
    settlement = Settlement(
        run=live.run,
        started_at=began,
        # The clock may have been set back meanwhile.
        ended_at=max(ended, began or 0.0),
        exit=record,
        reading=evidence.reading,
        verdict=judged,
        follows=None,
    )
    return with_consequence(tower, live, settlement)


def with_consequence(tower: Tower, live: LiveRun, settlement: Settlement) -> Settlement:
    """A settlement with what it cost, and with what follows from its verdict by the agent's policy."""
    judged, reading = settlement.verdict, settlement.reading
    settlement = replace(settlement, price=price(reading, tower.factory, live.runner, asked=live.run.model_asked))
    failed = judged.outcome is Outcome.FAILED and recovery.FAILED in live.agent.recover_on
    if settlement.is_unavailable or (judged.interruption is None and not failed):
        return settlement
    follows = recovery.decide(
        run=live.run.id,
        cut=judged.interruption,
        agent=live.agent,
        attempt=live.run.attempt,
        jitter=tower.jitter(),
        why=judged.reason,
    )
    if isinstance(follows, recovery.End) and follows.outcome is not None:
        judged = replace(judged, outcome=follows.outcome)
    return replace(settlement, follows=follows, verdict=judged)


def _transaction(tower: Tower, done: Settlement, connection: Connection) -> None:
    run, reading, record = done.run, done.reading, done.exit
    known = runs.get(connection, run.id)
    if known is not None and known.started_at is None:
        # The tower before died between the start and its record.
        runs.update(connection, run.id, started_at=done.started_at)
    runs.update(
        connection,
        run.id,
        state=RunState.ENDED,
        ended_at=done.ended_at,
        outcome=done.verdict.outcome,
        interruption=done.verdict.interruption,
        reason=done.verdict.reason,
        exit_code=record.code if record else None,
        exit_signal=record.signal if record else None,
        cpu_seconds=record.cpu_seconds if record else None,
        peak_memory=record.peak_memory if record else None,
        model=reading.model,
        tokens_in=reading.tokens_in,
        tokens_cached=reading.tokens_cached,
        tokens_out=reading.tokens_out,
        cost=done.price.cost,
        cost_source=done.price.source,
    )
    runs.add_notes(connection, run.id, (*done.verdict.notes, *filter(None, [done.price.remark])))
    if run.turn is None:
        runs.update_process(connection, run.process, ended_at=done.ended_at)
    else:
        runs.update(connection, run.id, out_to=done.out_to, err_to=done.err_to)
    reserved = run.reserved if known is None else known.reserved
    money.settle(tower, connection, run, charge(done.price, reserved, worked=not done.is_unavailable))
    events.append(
        connection,
        _told(tower, "run.ended", run, outcome=done.verdict.outcome, reason=done.verdict.reason),
    )
    tried_at = _note_runner(tower, done, connection)
    # The first one would take the others along, untold.
    for flight in reversed(run.flights):
        _move(tower, done, flight, connection, tried_at)
    joins.look(tower, connection, run.itinerary)


def _note_runner(tower: Tower, done: Settlement, connection: Connection) -> float | None:
    """What the end says of the runner; returns when it is tried again, if it could not work."""
    run = done.run
    if not done.is_unavailable:
        circuits.ended(tower, connection, run, done.verdict.outcome)
        return None
    # A wall of its provider must not use up the chain's runs.
    itineraries.uncount_run(connection, run.itinerary)
    return circuits.could_not_work(tower, connection, run, reason=done.verdict.reason, reset_at=done.reset_at).until


def _move(tower: Tower, done: Settlement, flight: str, connection: Connection, tried_at: float | None) -> None:
    """What becomes of one flight that woke the run."""
    run, now = done.run, tower.clock()
    outcome, reason = done.verdict.outcome, done.verdict.reason
    match done.follows:
        case _ if done.left and _is_repeated(done):
            state = FlightState.HELD
            words = (
                f"processes of run {run.id} could not be ended ({', '.join(map(str, done.left))}): end them,"
                f" then `tower recover {run.id}`"
            )
            changes: dict[str, Any] = {
                "held_reason": HeldReason.UNCONFIRMED,
                "reason": words,
                "follows_run": run.id,
            }
        case recovery.Recover(after_seconds=seconds):
            state = FlightState.QUEUED
            changes = {
                "attempt": run.attempt + 1,
                "cause": Cause.RECOVERY,
                "follows_run": run.id,
                "not_before": now + seconds,
            }
        case recovery.HoldForPerson(words=words):
            state = FlightState.HELD
            changes = {"held_reason": HeldReason.RECOVERY, "reason": words, "follows_run": run.id}
        case recovery.HoldForFuel(words=words):
            state = FlightState.HELD
            changes = {
                "held_reason": HeldReason.FUEL,
                "reason": words,
                "attempt": run.attempt + 1,
                "cause": Cause.RECOVERY,
                "follows_run": run.id,
            }
        case recovery.End(state=state, words=words):
            changes = {"reason": words, "outcome": outcome, "ended_at": done.ended_at, "follows_run": run.id}
        case _ if done.is_unavailable:
            state = FlightState.HELD
            words = f"{reason}; `tower runners reset {run.runner}` tries it at once"
            changes = {"held_reason": HeldReason.QUOTA, "reason": words, "release_at": tried_at}
        case _:
            state = FlightState.LANDED
            changes = {"reason": reason, "outcome": outcome, "ended_at": done.ended_at}
    if flights.move(connection, flight, state, **changes):
        kind = "requeued" if state is FlightState.QUEUED else state
        told = {"reason": changes.get("held_reason"), "words": changes.get("reason")}
        event = _told(tower, f"flight.{kind}", run, flight=flight, outcome=outcome, **told)
        events.append(connection, event)


def _is_repeated(done: Settlement) -> bool:
    follows = recovery.Recover | recovery.HoldForPerson | recovery.HoldForFuel
    return done.is_unavailable or isinstance(done.follows, follows)


def _told(tower: Tower, type_: str, run: Run, flight: str | None = None, **data: object) -> Any:
    first = flight or (run.flights[0] if run.flights else None)
    return tower.event(type_, flight=first, itinerary=run.itinerary, run=run.id, agent=run.agent, **data)
