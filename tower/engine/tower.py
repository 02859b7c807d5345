"""The tower's present: the live generation, the runs alive, and the parts that the engine's tasks share.

Only facts that die with the process stand here; everything that must survive it is in the store. The tasks that
change it are `dispatcher`, `conduct`, `settle`, `recover`, `reload` and `ground_stop`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

import anyio
import structlog
from anyio.abc import TaskGroup

from tower.config.problems import Problem
from tower.core import ids
from tower.core.confinement import Abilities
from tower.core.errors import BusyError
from tower.core.factory import Agent, Factory, Runner
from tower.core.launch import KeeperPlan
from tower.core.payload import Part
from tower.core.rails import Rails, Seat
from tower.core.records import Event, Process, Run
from tower.core.residence import Residence, ResidentState
from tower.engine.bus import Bus
from tower.engine.naming import Naming
from tower.runners.jsonl import Lines, Result
from tower.store.database import DISK_FULL, Connection, Store
from tower.system.ballast import Ballast
from tower.system.disk import free_bytes
from tower.system.frozen import FrozenTrees
from tower.system.keeperlink import KeeperLink
from tower.system.logs import Redaction
from tower.system.statedir import StateDir
from tower.system.workspace import remove_workspace

log = structlog.get_logger("tower.engine")

WORK: Final = "work"
"""The bus topic of the dispatcher: something may be able to start."""

RESIDENTS: Final = "residents"
"""The bus topic of those who look after residents' processes."""


FROZEN: Final = "frozen"
"""The folder of frozen trees among those of the snapshots."""

RETRY_SEC: Final = 1.0
"""Pause before what a full disk refused is tried again."""


class StartKeeper(Protocol):
    """The seam behind which runs are started: `tower.system.keeping.start_keeper`, or a script in tests."""

    def __call__(self, plan: KeeperPlan) -> Awaitable[KeeperLink]: ...


@dataclass(slots=True, eq=False, kw_only=True)
class LiveRun:
    """A run that holds a slot: claimed, or with a keeper."""

    run: Run
    agent: Agent
    """As it was in the run's own generation, whatever the file says meanwhile."""
    runner: Runner
    seat: Seat
    has_own_worktree: bool = False
    """It works in the work tree of its chain, which `agent.work_dir` then names."""
    link: KeeperLink | None = None
    stopping: str | None = None
    """The word with which it was asked to end (cancelled, halted, stop, result)."""
    printed: int = 0
    """Bytes of its standard output, as far as its keeper has told."""
    has_tools: anyio.Event = field(default_factory=anyio.Event)
    """It has asked which tools the tower offers."""
    secrets: tuple[str, ...] = ()
    """Masked in what it sends and remembers, and in the tower's log, while it lives."""


@dataclass(slots=True, eq=False, kw_only=True)
class OpenTurn:
    """The turn that a resident's process has, from its claim to its settlement."""

    live: LiveRun
    number: int
    result: Result | None = None
    is_asked: bool = False
    """The keeper was told of it, by this tower or perhaps by the one before."""
    is_refused: bool = False
    """The keeper has not taken it, as far as is known."""
    is_cut_off: bool = False
    """The process is gone, and that is written down."""
    was_alive: bool = True
    """This tower saw its process alive: without an exit record it was lost under the tower's eyes."""
    left: tuple[int, ...] = ()
    """Processes that could not be ended then."""
    noise: Counter[str] = field(default_factory=Counter)
    """Lines that were none of the protocol, by what was wrong with them."""


@dataclass(slots=True, eq=False, kw_only=True)
class Resident:
    """An agent for which a process is kept, and that process while there is one."""

    name: str
    residence: Residence
    process: Process | None = None
    """Its record; None while there is no process."""
    link: KeeperLink | None = None
    lines: Lines | None = None
    """How far its output was read."""
    turn: OpenTurn | None = None
    known: Mapping[Part, str] = field(default_factory=dict)
    """What the process was told of what changes."""
    quiet_since: float = 0.0
    """When its last turn ended, by the tower's clock."""
    offered_session: str | None = None
    """What the process before this one called its conversation."""
    secrets: tuple[str, ...] = ()
    """Masked in what it sends and remembers, and in the tower's log, while the process lives."""
    start_error: str | None = None
    """Why its keeper could not start it, in words."""
    is_to_restart: bool = False
    """A person wants another process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroundStop:
    """The kill switch, engaged."""

    since: float
    by: str
    why: str

    def words(self) -> str:
        """Who and why, for reasons and refusals."""
        return f"engaged by {self.by}" + (f": {self.why}" if self.why else "")


@dataclass(slots=True, eq=False, kw_only=True)
class Tower:
    """The shared state of the engine's tasks; made once by the composition root."""

    store: Store
    state: StateDir
    bus: Bus
    clock: Callable[[], float]
    """Seconds since the epoch, UTC."""
    chance: Callable[[int], bytes]
    environ: Mapping[str, str]
    """The tower's own environment, as it was started with."""
    umask: int
    """The umask that the tower was started with."""
    descriptors: int
    """The soft limit on open files that the tower was started with: agents get it back."""
    cgroup: Path | None
    """The part of the control group hierarchy that was given to this tower."""
    redaction: Redaction
    ballast: Ballast
    start_keeper: StartKeeper
    factory: Factory
    tasks: TaskGroup
    started_at: float
    loaded_at: float
    python: str
    abilities: Callable[[], Abilities] = Abilities
    """What the machine can confine runs with; the first call may take some tenths of a second."""
    failpoints: Mapping[str, str] = field(default_factory=dict)
    """Failpoints that travel to the keepers; empty outside crash tests."""
    live: dict[str, LiveRun] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    """Of the last edit, if it was bad; the generation before it is still live."""
    needs_restart: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    watch_problem: str | None = None
    """Why edits are seen late (no watch could be had), while that is so."""
    ground_stop: GroundStop | None = None
    draining: bool = False
    stopping: bool = False
    is_ending_all: bool = False
    """It goes down, and nothing is to outlive it."""
    residents: dict[str, Resident] = field(default_factory=dict)
    naming: Naming = field(init=False)
    frozen: FrozenTrees = field(init=False)
    """Where snapshots are taken from. It lies where snapshots were made when the tower started."""
    mcp_url: str = ""
    """Where runs find the tower's tools over HTTP."""
    tools_wanted: anyio.Event = field(default_factory=anyio.Event)
    """A program was started, or found alive, that will ask for them: they are made ready."""
    paused: dict[str, str] = field(default_factory=dict)
    """Agent -> who wants nothing to be started for it."""

    @property
    def agents_umask(self) -> int:
        """The configured one, else that which the tower was started with."""
        asked = self.factory.settings.umask
        return self.umask if asked is None else int(asked, 8)

    def __post_init__(self) -> None:
        snapshots = self.factory.settings.snapshots_dir
        self.naming = Naming(str(self.state.trees), (str(self.state.root), snapshots))
        self.frozen = FrozenTrees(Path(snapshots) / FROZEN, remove_workspace)

    def new_id(self, prefix: str) -> str:
        """A fresh id, from the tower's clock and chance."""
        return ids.new_id(prefix, self.clock(), self.chance(ids.RANDOM_BYTES))

    def free_bytes(self) -> int | None:
        """Of the state folder's disk; None when that cannot be told."""
        try:
            return free_bytes(self.state.root)
        except OSError as error:
            log.warning("disk.unknown", folder=str(self.state.root), error=str(error))
            return None

    def rails(self) -> Rails:
        """What bounds the factory now."""
        return Rails(
            now=self.clock(),
            ground_stop=self.ground_stop.words() if self.ground_stop else None,
            draining=self.draining or self.stopping,
            free_bytes=self.free_bytes(),
            paused=self.paused,
            residents={name: self._waits(resident) for name, resident in self.residents.items()},
        )

    def _waits(self, resident: Resident) -> str | None:
        words = resident.residence.waits(self.clock())
        if resident.residence.state is ResidentState.QUARANTINED:
            return f"{words}; `tower agents restart {resident.name}` tries again"
        return words

    @property
    def slots_used(self) -> int:
        """Processes of agents that are alive, or about to be."""
        transient = sum(live.run.turn is None for live in self.live.values())
        return transient + sum(resident.residence.has_process for resident in self.residents.values())

    def jitter(self) -> float:
        """A factor between 0.9 and 1.1 for pauses, so that what was cut off together does not come back together."""
        return 0.9 + 0.2 * self.chance(1)[0] / 255

    def seats(self) -> list[Seat]:
        """What the runs alive take up."""
        return [live.seat for live in self.live.values()]

    def wake(self) -> None:
        """Have the dispatcher look at the queue again, and residents at themselves."""
        self.bus.pulse(WORK)
        self.bus.pulse(RESIDENTS)

    def free(self, live: LiveRun) -> None:
        """Give back the slot and the seat of a run that is over; its secrets are kept no longer."""
        self.live.pop(live.run.id, None)
        self.redaction.remove(live.secrets)
        live.secrets = ()
        self.frozen.let_go(live.run.id)
        self.bus.pulse(live.run.id)
        self.wake()

    async def persist(self, transaction: Callable[[Connection], object]) -> None:
        """Write what has happened already, and so must be written down: a full disk delays it.

        A cancellation takes effect between two tries only.
        """
        while True:
            try:
                with anyio.CancelScope(shield=True):
                    await self.store.write(transaction)
                return
            except BusyError as error:
                log.error("store.delayed", error=str(error))
                if error.code == DISK_FULL and not self.ballast.is_thrown_off:
                    self.ballast.throw_off()
                    self.bus.publish([self.event("disk.full")])
                else:
                    await anyio.sleep(RETRY_SEC)

    def event(
        self,
        type_: str,
        *,
        flight: str | None = None,
        itinerary: str | None = None,
        run: str | None = None,
        agent: str | None = None,
        **data: object,
    ) -> Event:
        """An event that happens now; appending it belongs to the transaction it tells of."""
        return Event(type=type_, at=self.clock(), itinerary=itinerary, flight=flight, run=run, agent=agent, data=data)
