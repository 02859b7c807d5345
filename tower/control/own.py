"""What a run may ask and say about itself: whom it may send to, what is left of its budgets, and its report."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import anyio.to_thread

from tower.control import views
from tower.control.cancelling import end_waiting
from tower.control.rights import require_person, require_run
from tower.core import accounts, costs
from tower.core.accounts import Report
from tower.core.callers import Caller
from tower.core.errors import ConflictError, NotFoundError, RefusedError
from tower.core.factory import Position
from tower.core.records import Flight, Itinerary, Run
from tower.core.routes import JoinKind, Route, RouteMode
from tower.core.states import WAITING, FlightState
from tower.engine import joins, offering
from tower.engine.looking import explain_waiting
from tower.engine.tower import LiveRun, Tower, log
from tower.store import accounts as stored
from tower.store import events, flights, itineraries, lookup, runs
from tower.store.database import Connection
from tower.system.keeperlink import KeeperLink

LOOK_AT: Final = 1000
"""Flights of the queue that are looked at for what one of them waits for; behind these it waits for all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bearings:
    """Where a run stands: its chain, and the hops that a flight of its own would have."""

    run: Run
    chain: Itinerary
    hops: int
    sources: tuple[str | None, ...]
    """Of the cost of each run of the chain that has ended."""


@dataclass(frozen=True, slots=True)
class OwnVerbs:
    """What a run may ask and say about itself."""

    tower: Tower

    async def peers(self, caller: Caller) -> views.View:
        """Whom the run may send to now, as the live configuration and the budgets of its chain have it.

        An orchestrator is told of all the others as well, whom it may not send to.
        """
        run_id = require_run(caller, "list peers")
        stands = await self.tower.store.read(partial(_bearings, run_id))
        factory = self.tower.factory
        found: list[views.View] = []
        for name in factory.peers(stands.run.agent, stands.chain.scope):
            peer, route = factory.agents.get(name), factory.route(stands.run.agent, name, stands.chain.scope)
            if peer is None or route is None or not peer.enabled or stands.chain.cancelled_at is not None:
                continue
            if self._may_send(stands, route.mode):
                found.append(
                    {
                        "name": name,
                        "description": peer.description,
                        "purpose": peer.purpose,
                        "access": peer.access,
                        "mode": route.mode,
                        "join": _join_words(route),
                    }
                )
        return {"peers": found, "hops": stands.hops, "roster": self._roster(caller, {peer["name"] for peer in found})}

    async def after_sending(self, caller: Caller, identity: str) -> views.View:
        """What a run is told of a flight that it has sent: hops that are left, its state, and what it waits for."""
        run_id = require_run(caller, "look at a flight")

        def read(connection: Connection) -> tuple[Flight, int]:
            flight = flights.get(connection, identity)
            assert flight is not None  # noqa: S101 (it was sent a moment ago)
            return flight, _bearings(run_id, connection).hops

        flight, hops = await self.tower.store.read(read)
        words = flight.reason if flight.state is FlightState.HELD else None
        if flight.state in (FlightState.QUEUED, FlightState.PARKED):
            waiting = await explain_waiting(self.tower, LOOK_AT)
            words = next((said for one, said in waiting if one.id == flight.id), None)
        return {"hops": hops, "state": flight.state, "waits_for": words}

    async def standing(self, caller: Caller) -> views.View:
        """What is left: hops, Fuel with its source, runs of the chain, time of this run. Between turns: only who."""
        if caller.run is None and caller.process is not None:
            return {"agent": caller.name, "run": None, "process": caller.process}
        stands = await self.tower.store.read(partial(_bearings, require_run(caller, "show what is left")))
        run, chain = stands.run, stands.chain
        return {
            "agent": run.agent,
            "run": run.id,
            "itinerary": chain.id,
            "pipeline": chain.pipeline,
            "hops": stands.hops,
            "fuel_usd": views.dollars(max(0, chain.fuel_limit - chain.fuel_spent - chain.fuel_reserved)),
            "fuel_limit_usd": views.dollars(chain.fuel_limit),
            "fuel_source": costs.weakest(source for source in stands.sources if source),
            "spent": costs.text(chain.fuel_spent, stands.sources) if stands.sources else None,
            "runs": max(0, chain.max_runs - chain.runs_started),
            "max_runs": chain.max_runs,
            "seconds": self._seconds_left(run),
            "cancelled": chain.cancelled_at is not None,
        }

    async def report(self, caller: Caller, *, headline: str, body: str, artifacts: Sequence[str]) -> views.View:
        """Give the account of this run; a later one takes its place. What is too long is trimmed, which is said."""
        run_id = require_run(caller, "report")
        masked = self.tower.redaction.apply
        title, text = accounts.headline(masked(headline)), accounts.body(masked(body))
        files, too_many = accounts.artifacts([masked(path) for path in artifacts])
        run = await self.tower.store.read(lambda connection: runs.get(connection, run_id))
        assert run is not None  # noqa: S101 (the token named it)
        kept, left_out = await anyio.to_thread.run_sync(_confined, files, self._roots(run))
        report = Report(run=run_id, at=self.tower.clock(), headline=title.text, body=text.text, artifacts=kept)

        def write(connection: Connection) -> bool:
            told = self.tower.event(
                "run.reported", run=run.id, itinerary=run.itinerary, agent=run.agent, headline=title.text
            )
            events.append(connection, told)
            return stored.put_report(connection, report)

        again = await self.tower.store.write(write)
        cuts = [cut for cut in (title.cut, text.cut, too_many, *left_out) if cut]
        return views.report(report) | {"again": again, "cuts": cuts}

    async def report_of(self, caller: Caller, text: str) -> views.View:
        """What a run reported. Raises `NotFoundError` for one that has not."""
        require_person(caller, "read a report")

        def read(connection: Connection) -> tuple[str, Report | None]:
            _, identity = lookup.find(connection, text, kind="run")
            return identity, stored.report(connection, identity)

        identity, found = await self.tower.store.read(read)
        if found is None:
            raise NotFoundError(
                "no-report", f"cannot show a report of run {identity}: it gave none", "`tower logs` has what it printed"
            )
        return views.report(found)

    async def cancel(self, caller: Caller, text: str) -> views.View:
        """Cancel a flight of the caller's own chain that has not started; for the orchestrator alone.

        Raises `RefusedError` for anybody else and for a flight of another chain, `ConflictError` for one that has
        started, `NotFoundError`.
        """
        run_id = require_run(caller, "cancel a flight")
        if not self.is_orchestrator(caller):
            raise RefusedError(
                "not-orchestrator",
                f"cannot cancel a flight: {caller.name} is no orchestrator",
                f'go on without it; a person can set agents.{caller.name}.position = "orchestrator"',
            )

        def write(connection: Connection) -> Flight:
            run, flight = runs.get(connection, run_id), _flight(connection, text)
            if run is None or flight.itinerary != run.itinerary:
                raise RefusedError(
                    "foreign-chain",
                    f"cannot cancel flight {flight.id}: it belongs to another chain",
                    "you may cancel what was sent in your own chain",
                )
            if flight.state not in WAITING:
                raise ConflictError(
                    "started",
                    f"cannot cancel flight {flight.id}: it waits no more ({flight.state})",
                    "only what has not started can be cancelled; a person can end a run",
                )
            end_waiting(self.tower, connection, flight, person=caller.name)
            joins.look(self.tower, connection, flight.itinerary)
            return flight

        cancelled = await self.tower.store.write(write)
        self.tower.wake()
        return {"flight": cancelled.id, "to": cancelled.receiver}

    def is_orchestrator(self, caller: Caller) -> bool:
        """Whether the caller is offered what only an orchestrator may do."""
        agent = self.tower.factory.agents.get(caller.name)
        return agent is not None and agent.position is Position.ORCHESTRATOR

    async def heard(self, caller: Caller, *, tools_listed: bool = False) -> None:
        """The caller made a call: it is not stalled. With `tools_listed` it has the tower's tools."""
        live = self.tower.live.get(caller.run or "")
        if live is not None and tools_listed:
            offering.asked(self.tower, live)
        link = self._link(caller, live)
        if link is not None:
            try:
                await link.poke()
            except ConflictError as error:
                log.debug("run.cannot-poke", run=caller.run, error=str(error))

    def _roster(self, caller: Caller, peers: Container[str]) -> list[views.View]:
        """Who else there is, for an orchestrator."""
        if not self.is_orchestrator(caller):
            return []
        return [
            {"name": name, "description": other.description, "purpose": other.purpose, "access": other.access}
            for name, other in sorted(self.tower.factory.agents.items())
            if other.enabled and name != caller.name and name not in peers
        ]

    def _link(self, caller: Caller, live: LiveRun | None) -> KeeperLink | None:
        if live is not None and live.link is not None:
            return live.link
        resident = self.tower.residents.get(caller.name)
        return resident.link if resident is not None and live is not None else None

    def _may_send(self, stands: Bearings, mode: RouteMode) -> bool:
        if mode is RouteMode.SPAWN:
            return stands.chain.spawn_generation < self.tower.factory.settings.max_spawn_generations
        return stands.hops > 0

    def _seconds_left(self, run: Run) -> float | None:
        live = self.tower.live.get(run.id)
        if live is None or run.started_at is None:
            return None
        return round(max(0.0, run.started_at + live.agent.timeout_sec - self.tower.clock()), 1)

    def _roots(self, run: Run) -> tuple[Path, ...]:
        """Where the artifacts of a run may lie: the place that it works in, then what it was told to write out to."""
        out = self.tower.state.run_folder(run.agent, run.id) / "out"
        return tuple(Path(place) for place in (run.workspace, str(out)) if place)


def _join_words(route: Route) -> str | None:
    """What a flight along a route waits for before its receiver wakes, in words."""
    join = route.join
    if join is None:
        return None
    needed = {
        JoinKind.ALL: "all of them have sent",
        JoinKind.ANY: "the first of them has sent",
        JoinKind.QUORUM: f"{join.needed} of them have sent",
        JoinKind.SETTLED: "one of them has sent and none of the others can any more",
    }[join.kind]
    return f"wakes once, when of {', '.join(join.senders)} {needed}"


def _flight(connection: Connection, text: str) -> Flight:
    """Raises `NotFoundError`."""
    _, identity = lookup.find(connection, text, kind="flight")
    flight = flights.get(connection, identity)
    assert flight is not None  # noqa: S101 (found in the same view of the database)
    return flight


def _bearings(run_id: str, connection: Connection) -> Bearings:
    run = runs.get(connection, run_id)
    assert run is not None  # noqa: S101 (the token named it)
    chain = itineraries.get(connection, run.itinerary)
    assert chain is not None  # noqa: S101 (a foreign key of the run)
    told = flights.of_run(connection, run.id)
    return Bearings(
        run=run,
        chain=chain,
        hops=min((flight.hops_remaining for flight in told), default=0),
        sources=tuple(source for _, source in itineraries.costs(connection, chain.id)),
    )


def _confined(paths: Sequence[str], roots: Sequence[Path]) -> tuple[tuple[str, ...], list[str]]:
    """The paths that lie in one of the places, as they were given, and in words why others are left out."""
    kept, left_out = [], []
    for path in paths:
        if len(path) > accounts.ARTIFACT_CHARS:
            left_out.append(f"an artifact's path of {len(path)} characters was left out")
        elif any(_lies_in(path, root) for root in roots):
            kept.append(path)
        else:
            left_out.append(f"artifact {path[:120]!r} was left out: no such file in the place that this run works in")
    return tuple(kept), left_out


def _lies_in(path: str, root: Path) -> bool:
    """Whether a path, links followed, names something inside a place. One that is absolute may do so as well."""
    try:
        real, found = root.resolve(), (root / path).resolve(strict=True)
    except (OSError, RuntimeError, ValueError):
        return False
    return found != real and found.is_relative_to(real)
