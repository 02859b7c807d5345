"""Which flights start now, and for every other one the reason why not.

One pure function over the queue, the runs alive, the rails and the clock. It decides and words the reasons; the
dispatcher carries out what it decided, and `tower queue` shows what it said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tower.core.factory import Access, Agent, Factory
from tower.core.records import Flight, Itinerary
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
class _Room:
    """What is still free while decisions are taken one after another."""

    seats: list[Seat]
    agents: Counter[str] = field(default_factory=Counter)
    runners: Counter[str] = field(default_factory=Counter)
    chains: Counter[str] = field(default_factory=Counter)
    trees: dict[str, str] = field(default_factory=dict)
    transient: int = 0
    """Runs with a process of their own."""

    def __post_init__(self) -> None:
        for seat in self.seats:
            self._count(seat)

    def take(self, seat: Seat) -> None:
        self.seats.append(seat)
        self._count(seat)

    def _count(self, seat: Seat) -> None:
        self.agents[seat.agent] += 1
        self.transient += not seat.is_turn
        self.runners[seat.runner] += 1
        self.chains[seat.itinerary] += 1
        if seat.tree is not None:
            self.trees.setdefault(seat.tree, seat.agent)


def seat_of(agent: Agent, itinerary: str) -> Seat:
    """What a run of this agent takes up."""
    writes = agent.access is Access.READ_WRITE
    return Seat(
        agent=agent.name,
        runner=agent.runner,
        itinerary=itinerary,
        tree=agent.work_dir if writes else None,
        is_turn=agent.resident,
    )


def decide(
    queue: Iterable[Flight],
    *,
    factory: Factory,
    itineraries: Mapping[str, Itinerary],
    alive: Iterable[Seat],
    rails: Rails,
) -> dict[str, Decision]:
    """A decision for every flight of `queue`, by its id.

    Order among those that may start: higher priority; then the chain with the fewest live runs; then the oldest.
    """
    room = _Room(list(alive))
    started_of: Counter[str] = Counter()
    waiting = list(queue)
    decisions: dict[str, Decision] = {}
    while waiting:
        waiting.sort(key=lambda flight: (-flight.priority, room.chains[flight.itinerary], flight.created_at, flight.id))
        for position, flight in enumerate(waiting):
            itinerary = itineraries[flight.itinerary]
            decision = _decide_one(flight, itinerary, started_of[itinerary.id], factory, room, rails)
            decisions[flight.id] = decision
            if isinstance(decision, Start):
                # A start changes whose turn it is, so the rest is looked at again in its new order.
                room.take(seat_of(factory.agents[flight.receiver], flight.itinerary))
                started_of[itinerary.id] += 1
                del waiting[: position + 1]
                break
        else:
            break
    return decisions


def _decide_one(
    flight: Flight, itinerary: Itinerary, started: int, factory: Factory, room: _Room, rails: Rails
) -> Decision:
    """The checks in their order; the first that fails is the reason."""
    return (
        _factory_stands(rails)
        or _route_stands(flight, itinerary, factory)
        or _agent_stands(flight, factory)
        or _chain_stands(itinerary)
        or _within_run_cap(itinerary, started)
        or _due(flight, rails)
        or _is_let_work(factory.agents[flight.receiver], room, rails)
        or _has_room(factory.agents[flight.receiver], factory, room, rails)
        or _has_disk(factory, rails)
        or Start()
    )


def _factory_stands(rails: Rails) -> Decision | None:
    if rails.ground_stop is not None:
        return Hold(HeldReason.GROUND_STOP, f"ground stop: {rails.ground_stop}; `tower ground-stop off` releases it")
    if rails.draining:
        return Wait("the tower is draining: nothing starts until `tower resume`")
    return None


def _route_stands(flight: Flight, itinerary: Itinerary, factory: Factory) -> Decision | None:
    if itinerary.pipeline is not None and itinerary.pipeline not in factory.pipelines:
        return Hold(
            HeldReason.AGENT,
            f"pipeline {itinerary.pipeline} is not in the configuration any more;"
            f" add [pipelines.{itinerary.pipeline}], or cancel",
        )
    sender = flight.sender
    if sender.kind == "agent" and factory.route(sender.name, flight.receiver, itinerary.scope) is None:
        return Hold(
            HeldReason.AGENT,
            f"the route from {sender.name} to {flight.receiver} is gone; declare it again in [[routes]], or cancel",
        )
    return None


def _agent_stands(flight: Flight, factory: Factory) -> Decision | None:
    agent = factory.agents.get(flight.receiver)
    if agent is None:
        return Hold(
            HeldReason.AGENT,
            f"agent {flight.receiver} is not in the configuration any more; add [agents.{flight.receiver}], or cancel",
        )
    if not agent.enabled:
        return Hold(HeldReason.AGENT, f"agent {agent.name} is disabled; set agents.{agent.name}.enabled = true")
    if factory.runners[agent.runner].kind == "none":
        return Hold(
            HeldReason.AGENT, f"agent {agent.name} has the runner none; give agents.{agent.name}.runner another"
        )
    return None


def _chain_stands(itinerary: Itinerary) -> Decision | None:
    if itinerary.cancelled_at is not None:
        return Refuse("its itinerary was cancelled; send anew what is still wanted")
    return None


def _within_run_cap(itinerary: Itinerary, started: int) -> Decision | None:
    if itinerary.runs_started + started >= itinerary.max_runs:
        return Refuse(
            f"its itinerary has had all of its {itinerary.max_runs} runs; raise defaults.max_runs and send anew"
        )
    return None


def _due(flight: Flight, rails: Rails) -> Decision | None:
    if flight.not_before is not None and flight.not_before > rails.now:
        return Wait(f"not before {flight.not_before - rails.now:.0f} s from now")
    return None


def _is_let_work(agent: Agent, room: _Room, rails: Rails) -> Decision | None:
    if agent.name in rails.paused:
        return Wait(
            f"agent {agent.name} was paused by {rails.paused[agent.name]}; `tower agents resume {agent.name}` goes on"
        )
    if not agent.resident:
        return None
    if room.agents[agent.name]:
        return Wait(f"agent {agent.name} is at work on another flight: one at a time")
    why = rails.residents.get(agent.name, "has no process yet")
    return None if why is None else Wait(f"agent {agent.name} {why}")


def _has_room(agent: Agent, factory: Factory, room: _Room, rails: Rails) -> Decision | None:
    settings = factory.settings
    runner = factory.runners[agent.runner]
    kept = len({*factory.residents, *rails.residents})
    if not agent.resident and room.transient + kept >= settings.max_concurrent_runs:
        residents = f", {kept} of them kept for residents" if kept else ""
        return Wait(f"all {settings.max_concurrent_runs} slots are taken{residents} (defaults.max_concurrent_runs)")
    if agent.max_concurrent is not None and room.agents[agent.name] >= agent.max_concurrent:
        return Wait(f"agent {agent.name} has its {agent.max_concurrent} runs (agents.{agent.name}.max_concurrent)")
    if runner.max_concurrent is not None and room.runners[runner.name] >= runner.max_concurrent:
        return Wait(f"runner {runner.name} has its {runner.max_concurrent} runs (runners.{runner.name}.max_concurrent)")
    if agent.access is Access.READ_WRITE and not settings.shared_writers:
        holder = room.trees.get(agent.work_dir)
        if holder is not None:
            return Wait(f"{holder} is writing in {agent.work_dir}: one writer at a time")
    return None


def _has_disk(factory: Factory, rails: Rails) -> Decision | None:
    floor = factory.settings.min_free_bytes
    if rails.free_bytes is not None and rails.free_bytes < floor:
        return Hold(
            HeldReason.DISK,
            f"the disk of the state folder has {rails.free_bytes >> 20} MiB free, less than layover.min_free_mb"
            f" ({floor >> 20}); free some, then it goes on by itself",
        )
    return None
