"""A tower with a long history beside one with a short one: what is asked of it most, and how fast it dispatches."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import anyio

from tower.core import ids
from tower.core.records import Event, Flight, Itinerary, Process, Run, Sender
from tower.core.states import Cause, FlightState, Outcome, RunState
from tower.store import events, flights, itineraries, runs
from tower.store.database import Connection, Store
from tower.system.statedir import prepare

from . import machine, served
from .clients import flight, post_all
from .table import Row, compared

PAST: Final = 100_000
SHORT: Final = 200
"""More than a list shows, so that both show as much."""

ROUNDS: Final = 5
ASKS: Final = 20
"""Requests of one kind in a round."""

JOBS: Final = 50
"""Flights of a round."""

AT_ONCE: Final = 32
AT_LEAST, AT_MOST = 0.9, 1.5

AGENT: Final = '[agents.trivial]\nrunner = "cmd:true"\nprompt = "Succeed."\nentry = true\n'
DEFAULTS: Final = f'max_concurrent_runs = {AT_ONCE}\nwriters = "shared"'

QUESTIONS: Final = {
    "status": "/status",
    "ps": "/runs",
    "ps -a": "/runs?all=true",
    "ps -a --agent": "/runs?all=true&agent=rare",
    "queue": "/flights?waiting=true",
    "itineraries": "/itineraries",
    "show CHAIN": "/itineraries/{chain}",
}


def measure(*, tiny: bool = False) -> list[Row]:
    """One row for each question, and one for dispatching. Both towers are asked in turn."""
    rounds, asks, jobs, past = (1, 1, 2, 50) if tiny else (ROUNDS, ASKS, JOBS, PAST)
    with machine.folder() as folder, ExitStack() as stack:
        (folder / "old").mkdir()
        (folder / "new").mkdir()
        old = stack.enter_context(
            served.tower(folder / "old", AGENT, defaults=DEFAULTS, before=lambda state: _live_through(state, past))
        )
        new = stack.enter_context(
            served.tower(folder / "new", AGENT, defaults=DEFAULTS, before=lambda state: _live_through(state, SHORT))
        )
        for each in (old, new):
            _fly(each, 2)
        table = []
        for name, path in QUESTIONS.items():
            ours, theirs = _in_turn(rounds, lambda tower, path=path: _asking(tower, path, asks), old, new)  # type: ignore[misc]  # bound now
            table.append(_row(f"{name}, {past} past runs", ours, theirs, unit="ms", at_most=AT_MOST))
        ours, theirs = _in_turn(rounds, lambda tower: _dispatching(tower, jobs), old, new)
        table.append(_row(f"dispatch, {past} past runs", ours, theirs, unit="jobs/s", at_least=AT_LEAST))
        return table


def _row(what: str, ours: list[float], theirs: list[float], *, unit: str, **bound: float) -> Row:
    return compared(what, ours, theirs, unit=unit, reference=f"{SHORT} past runs", **bound)


def _in_turn(
    rounds: int, figure: Callable[[served.Served], float], old: served.Served, new: served.Served
) -> tuple[list[float], list[float]]:
    pairs = [(figure(old), figure(new)) for _ in range(rounds)]
    return [one for one, _ in pairs], [other for _, other in pairs]


def _asking(tower: served.Served, path: str, times: int) -> float:
    """Milliseconds of one question."""
    path = path.format(chain=tower.ask("GET", "/itineraries?limit=1")["itineraries"][0]["id"])
    began = time.perf_counter()
    for _ in range(times):
        tower.ask("GET", path)
    return (time.perf_counter() - began) / times * 1e3


def _dispatching(tower: served.Served, jobs: int) -> float:
    began = time.perf_counter()
    _fly(tower, jobs)
    return jobs / (time.perf_counter() - began)


def _fly(tower: served.Served, count: int) -> None:
    post_all(str(tower.socket), [flight("trivial", str(number)) for number in range(count)], clients=AT_ONCE)
    tower.until_quiet()


def _live_through(state: Path, past: int) -> None:
    """Write down a long past: chains of one flight, one run and the events that tell of it."""
    began = time.time() - past

    async def write() -> None:
        store = Store(prepare(state).database, inline=True)
        await store.write(lambda connection: [_one(connection, began + number, number) for number in range(past)])
        await store.close()

    anyio.run(write)


def _one(connection: Connection, at: float, number: int) -> None:
    def made(prefix: str) -> str:
        return ids.new_id(prefix, at, number.to_bytes(ids.RANDOM_BYTES, "big"))

    chain = Itinerary(id=made(ids.ITINERARY), created_at=at, max_hops=8, max_runs=64, fuel_limit=5_000_000)
    sent = Flight(
        id=made(ids.FLIGHT),
        itinerary=chain.id,
        sender=Sender(kind="person", name="ann"),
        receiver="trivial",
        body="Do the next thing, and say what came of it.",
        created_at=at,
        state=FlightState.LANDED,
    )
    process = Process(id=made(ids.PROCESS), agent="trivial", folder="/gone", created_at=at, ended_at=at + 1)
    run = Run(
        id=made(ids.RUN),
        agent="trivial",
        runner="cmd:true",
        generation=1,
        itinerary=chain.id,
        process=process.id,
        state=RunState.ENDED,
        attempt=1,
        cause=Cause.DISPATCH,
        number=number + 1,
        queued_at=at,
        claimed_at=at,
        started_at=at,
        ended_at=at + 1,
        outcome=Outcome.SUCCEEDED,
        flights=(sent.id,),
    )
    itineraries.insert(connection, chain)
    flights.insert(connection, sent)
    runs.insert_process(connection, process)
    runs.insert(connection, run)
    for type_ in ("flight.queued", "run.started", "flight.landed"):
        events.append(connection, Event(type=type_, at=at, itinerary=chain.id, flight=sent.id, run=run.id))
