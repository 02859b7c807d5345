"""What bounds the factory at a moment, what is still free, and what can be decided about a flight.

The single checks are `checks`', their order, and whose turn it is, is `admission`'s.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from tower.core.budget import Books
from tower.core.circuit import Circuit
from tower.core.factory import Access, Agent
from tower.core.states import HeldReason


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """A run that is alive, or claimed: what it takes up."""

    agent: str
    runner: str
    itinerary: str
    tree: str | None
    """Real path of the live tree it may write to; None for a snapshot."""
    is_turn: bool = False
    """Of a resident: it takes the slot that is kept for the process, and no other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rails:
    """What bounds the whole factory at this moment."""

    now: float
    ground_stop: str | None = None
    """In words, who engaged it and why; None when it is off."""
    draining: bool = False
    free_bytes: int | None = None
    """Of the state folder's disk; None when it could not be read."""
    paused: Mapping[str, str] = field(default_factory=dict)
    """Agent -> who paused it."""
    residents: Mapping[str, str | None] = field(default_factory=dict)
    """For each resident, in words, why its process takes no turn now; None when it does."""
    circuits: Mapping[str, Circuit] = field(default_factory=dict)
    """Runners that cannot work at the moment."""
    books: Books = field(default_factory=Books)


@dataclass(frozen=True, slots=True)
class Start:
    """It starts now."""


@dataclass(frozen=True, slots=True)
class Wait:
    """It stays queued: something that passes by itself."""

    words: str


@dataclass(frozen=True, slots=True)
class Hold:
    """It is held until something else than a slot changes."""

    reason: HeldReason
    words: str
    seconds: float | None = None
    """After which it is looked at again by itself; None: not before something changes."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """It will never start."""

    words: str


Decision = Start | Wait | Hold | Refuse


@dataclass(slots=True)
class Room:
    """What is still free while decisions are taken one after another."""

    seats: list[Seat]
    agents: Counter[str] = field(default_factory=Counter)
    runners: Counter[str] = field(default_factory=Counter)
    chains: Counter[str] = field(default_factory=Counter)
    trees: dict[str, str] = field(default_factory=dict)
    transient: int = 0
    """Runs with a process of their own."""
    started: Counter[str] = field(default_factory=Counter)
    """Runs of each chain that were let start just now."""
    fuel: Counter[str] = field(default_factory=Counter)
    """Micro-dollars that these are expected to cost, by chain."""
    reserve: int = 0
    """The same of all chains."""
    probed: set[str] = field(default_factory=set)
    """Runners of which one was let start just now."""

    def __post_init__(self) -> None:
        for seat in self.seats:
            self._take(seat)

    def start(self, seat: Seat, estimate: int) -> None:
        """One more starts, which is expected to cost `estimate` micro-dollars."""
        self._take(seat)
        self.started[seat.itinerary] += 1
        self.fuel[seat.itinerary] += estimate
        self.reserve += estimate
        self.probed.add(seat.runner)

    def _take(self, seat: Seat) -> None:
        self.agents[seat.agent] += 1
        self.transient += not seat.is_turn
        self.runners[seat.runner] += 1
        self.chains[seat.itinerary] += 1
        if seat.tree is not None:
            self.trees.setdefault(seat.tree, seat.agent)


def tree_of(agent: Agent, itinerary: str, *, own_worktree: bool) -> str:
    """The tree that an agent works in, as far as it can be told before it is made."""
    return f"the work tree of {itinerary} for {agent.work_dir}" if own_worktree else agent.work_dir


def seat_of(agent: Agent, itinerary: str, *, own_worktree: bool = False) -> Seat:
    """What a run of this agent takes up; `own_worktree`: its chain has work trees of its own."""
    writes = agent.access is Access.READ_WRITE
    return Seat(
        agent=agent.name,
        runner=agent.runner,
        itinerary=itinerary,
        tree=tree_of(agent, itinerary, own_worktree=own_worktree) if writes else None,
        is_turn=agent.resident,
    )
