"""Verbs on the factory as a whole: status, agents, reload, ground stop, drain, and the stream of events."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import anyio.to_thread

from tower import __version__
from tower.config import written
from tower.config.explained import surroundings
from tower.config.variables import is_set
from tower.control import views
from tower.control.addressing import unknown_pipeline
from tower.control.rights import require_person
from tower.control.runs import views_of
from tower.control.summary import summary
from tower.core.callers import Caller
from tower.core.consequences import Change
from tower.core.errors import NotFoundError
from tower.core.factory import Agent, Factory
from tower.core.residence import ResidentState
from tower.core.states import FlightState
from tower.engine import drain, ground_stop, standing
from tower.engine.bus import ALL
from tower.engine.preview import preview
from tower.engine.reload import Compared, Reloaded
from tower.engine.tower import Tower
from tower.store import accounts, circuits, events, flights, ledger, lookup, runs, waves, worktrees
from tower.store.database import Connection
from tower.system.descriptors import shortage

EVENTS_AT_ONCE: Final = 500

FULL: Final = "the disk of the state folder is full: nothing new is taken until there is room"


@dataclass(frozen=True, slots=True)
class FactoryVerbs:
    """What can be asked of, and done with, the whole factory."""

    tower: Tower
    look_at_configuration: Callable[[], Awaitable[Reloaded]]
    compare_configuration: Callable[[], Awaitable[Compared]]

    async def status(self, caller: Caller) -> views.View:
        """One screen of truth."""
        require_person(caller, "show the status")
        tower = self.tower

        def read(
            connection: Connection,
        ) -> tuple[dict[str, int], list[views.View], list[views.View], int, list[str], list[str], views.View]:
            alive = views_of(connection, runs.listing(connection, every=False, limit=1000), tower.clock())
            held = [views.flight(flight) for flight in flights.held(connection)]
            wanting, spent = accounts.count_open(connection), _spent(tower, connection)
            return (
                flights.counts(connection),
                alive,
                held,
                wanting,
                _stalled(connection),
                _kept_trees(connection),
                spent,
            )

        counts, alive, held, wanting, stalled, trees, spent = await tower.store.read(read)
        stop = tower.ground_stop
        halted = counts.get(FlightState.HALTED, 0)
        factory = tower.factory
        return {
            "version": __version__,
            "pid": os.getpid(),
            "started_at": views.moment(tower.started_at),
            "state": "stopping" if tower.stopping else "draining" if tower.draining else "running",
            "well": not (tower.problems or stop or held or halted or wanting or stalled or self._is_ailing()),
            "generation": {
                "number": factory.generation,
                "digest": factory.digest,
                "loaded_at": views.moment(tower.loaded_at),
                "path": factory.path,
            },
            "ground_stop": {"since": views.moment(stop.since), "by": stop.by, "why": stop.why} if stop else None,
            "slots": {"used": tower.slots_used, "of": factory.settings.max_concurrent_runs},
            **spent,
            "queue": {state: counts.get(state, 0) for state in ("queued", "held", "parked", "halted")},
            "runs": alive,
            "holds": held,
            "problems": [views.problem(problem) for problem in tower.problems],
            "needs_restart": list(tower.needs_restart),
            "warnings": [*tower.warnings, *_troubles(tower, halted), *stalled, *trees],
            "agents": [views.agent(agent, tower.paused.get(agent.name)) for agent in factory.agents.values()],
            "residents": self._residents(),
            "help": wanting,
        }

    async def summary(self, caller: Caller, since: float) -> views.View:
        """What happened since a time (seconds since the epoch), and what waits for a person."""
        return await summary(self.tower, caller, since)

    def _residents(self) -> list[views.View]:
        known = self.tower.residents
        return [views.resident(known[name], self.tower.paused.get(name)) for name in sorted(known)]

    def _is_ailing(self) -> bool:
        return self.tower.ballast.is_thrown_off or any(
            it.residence.state is ResidentState.QUARANTINED for it in self.tower.residents.values()
        )

    async def agents(self, caller: Caller) -> views.View:
        """The agents of the live generation."""
        require_person(caller, "list agents")
        paused = self.tower.paused
        return {"agents": [views.agent(it, paused.get(it.name)) for it in self.tower.factory.agents.values()]}

    async def agent(self, caller: Caller, name: str) -> views.View:
        """One agent of the live generation: every value with where it came from, and a resident's process."""
        require_person(caller, "show an agent")
        record, paused = self._agent(name), self.tower.paused.get(name)
        resident = self.tower.residents.get(name)
        can = await anyio.to_thread.run_sync(self.tower.abilities)
        return {
            **views.agent(record, paused),
            "values": written.agent(record),
            "process": views.resident(resident, paused) if resident else None,
            **surroundings(self.tower.factory, record, partial(is_set, environ=self.tower.environ), can),
        }

    async def pipelines(self, caller: Caller) -> views.View:
        """The named ways in of the live generation."""
        require_person(caller, "list pipelines")
        return {"pipelines": [views.pipeline(it) for it in self.tower.factory.pipelines.values()]}

    async def mapped(self, caller: Caller, pipeline: str | None = None) -> Factory:
        """The live generation, to be drawn whole or as one of its pipelines has it. Raises `NotFoundError`."""
        require_person(caller, "see the route map")
        factory = self.tower.factory
        if pipeline is not None and pipeline not in factory.pipelines:
            raise unknown_pipeline(factory, pipeline)
        return factory

    async def restart_agent(self, caller: Caller, name: str) -> views.View:
        """Have the process of a resident replaced after its turn, and its failures forgotten."""
        require_person(caller, "restart an agent")
        self._agent(name)
        await standing.restart(self.tower, name, caller.name)
        return views.agent(self._agent(name), self.tower.paused.get(name))

    async def pause_agent(self, caller: Caller, name: str, *, on: bool) -> views.View:
        """Have nothing started for an agent any more, or again; what runs goes on."""
        require_person(caller, "pause an agent" if on else "resume an agent")
        agent = self._agent(name)
        await standing.pause(self.tower, name, caller.name if on else None)
        return views.agent(agent, self.tower.paused.get(name))

    def _agent(self, name: str) -> Agent:
        """Raises `NotFoundError`."""
        agent = self.tower.factory.agents.get(name)
        if agent is None:
            raise NotFoundError(
                "unknown-agent", f"cannot find an agent called {name[:80]!r}", "`tower status` lists them"
            )
        return agent

    async def prompt(self, caller: Caller, name: str, body: str) -> str:
        """Exactly what a run of an agent would be told, with nothing started."""
        require_person(caller, "show a prompt")
        self._agent(name)
        return preview(self.tower.factory, name, body, hangars=self.tower.state.hangars, person=caller.name)

    async def find(self, caller: Caller, text: str) -> views.View:
        """What an id, or the end of one, names."""
        require_person(caller, "look up an id")
        kind, identity = await self.tower.store.read(lambda connection: lookup.find(connection, text))
        return {"kind": kind, "id": identity}

    async def reload(self, caller: Caller) -> views.View:
        """Look at the configuration now; answered when it is live, or with what is wrong with it."""
        require_person(caller, "reload")
        result = await self.look_at_configuration()
        return {
            "changed": bool(result.changes),
            "generation": self.tower.factory.generation,
            "changes": list(result.changes),
            "problems": [views.problem(problem) for problem in result.problems],
            "needs_restart": list(result.needs_restart),
        }

    async def compare(self, caller: Caller) -> views.View:
        """What a reload would change, agent by agent; nothing is."""
        require_person(caller, "compare the configuration")
        found = await self.compare_configuration()

        def read(connection: Connection) -> dict[str, int]:
            gone = [it.agent for it in found.consequences if it.change is Change.REMOVED]
            return {name: flights.pending_for(connection, name) for name in gone}

        waiting = await self.tower.store.read(read)
        return {
            "generation": self.tower.factory.generation,
            "path": self.tower.factory.path,
            "changes": list(found.changes),
            "problems": [views.problem(problem) for problem in found.problems],
            "needs_restart": list(found.needs_restart),
            "agents": [views.consequence(it, waiting.get(it.agent, 0)) for it in found.consequences],
        }

    async def ground_stop_on(self, caller: Caller, why: str) -> views.View:
        """Stop everything: nothing starts, sends are held, runs are ended."""
        require_person(caller, "engage the ground stop")
        await ground_stop.engage(self.tower, by=caller.name, why=why)
        return await self.status(caller)

    async def ground_stop_off(self, caller: Caller) -> views.View:
        """Release the ground stop; what it ended does not start again on its own."""
        require_person(caller, "release the ground stop")
        await ground_stop.release(self.tower)
        return await self.status(caller)

    async def drain(self, caller: Caller, *, on: bool) -> views.View:
        """Stop starting, and let runs end; or start again."""
        require_person(caller, "drain" if on else "resume")
        if on:
            await drain.begin(self.tower, by=caller.name)
        else:
            await drain.end(self.tower)
        return await self.status(caller)

    async def events(self, caller: Caller, after: int) -> AsyncIterator[views.View]:
        """Everything that happened after a sequence number, and then what happens, for ever."""
        require_person(caller, "follow events")
        while True:
            with self.tower.bus.listening(ALL) as news:
                found = await self.tower.store.read(partial(events.after, seq=after, limit=EVENTS_AT_ONCE))
                for event in found:
                    yield views.event(event)
                    after = event.seq
                if not found:
                    await news.wait()


def _spent(tower: Tower, connection: Connection) -> views.View:
    """The money of the factory, and which runners cannot work."""
    now, reserve = tower.clock(), tower.factory.reserve
    window = ledger.window(connection, now=now, seconds=reserve.window_sec)
    return {
        "reserve": views.reserve(reserve, window),
        "circuits": [views.circuit(one, now) for one in circuits.every(connection).values()],
    }


def _troubles(tower: Tower, halted: int) -> list[str]:
    """What a person should know that no run and no flight says, in words."""
    troubles = [
        tower.watch_problem,
        FULL if tower.ballast.is_thrown_off else None,
        shortage(),
        "nothing starts: the tower is draining; `tower resume` ends it" if tower.draining else None,
        f"{halted} of the flights that a ground stop ended wait for a person: `tower recover --all-halted` starts them"
        " again, `tower cancel` ends one"
        if halted
        else None,
    ]
    return [trouble for trouble in troubles if trouble]


def _stalled(connection: Connection) -> list[str]:
    """Joins that were given up, with what they had."""
    return [
        f"the join before {one.receiver} in {one.itinerary} was given up: `tower show {one.itinerary}` says why,"
        f" `tower release {one.itinerary} {one.receiver}` wakes it with what is there"
        for one in waves.given_up(connection)
    ]


def _kept_trees(connection: Connection) -> list[str]:
    """Work trees of chains that are over, and stay because something in them would be lost."""
    return [
        f"the work tree {one.path} is kept: {one.kept}; `tower worktrees remove {one.itinerary}` removes it"
        for one in worktrees.listing(connection)
        if one.kept is not None
    ]
