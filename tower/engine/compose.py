"""Preparing a start: what the run would be told, its environment, its command; everything before the claim.

What stands in the way becomes a hold, and nothing has been made. The texts are `core.payload`'s and
`core.handover`'s, the variables `core.environment`'s, the command `runners`'; this module gathers what they need.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final

from tower.core import ids
from tower.core.environment import Missing
from tower.core.errors import BusyError
from tower.core.factory import Access, Agent, Factory, Position, Runner
from tower.core.launch import Launch, Limits
from tower.core.payload import Briefing, Letter, Part, Peer, estimate_tokens, later_payload, payload, told_anew
from tower.core.rails import Hold
from tower.core.records import Flight, Itinerary
from tower.core.residence import ResidentState
from tower.core.routes import RouteMode
from tower.core.states import HeldReason
from tower.core.tools import TOOLS
from tower.engine.enclosure import confinement_of
from tower.engine.handing_over import handover_for
from tower.engine.memories import memory_of
from tower.engine.places import resident_folder
from tower.engine.program import Program, argv_of, environment_of, files_of, how_to_mend, is_installed
from tower.engine.tower import Tower
from tower.store import flights
from tower.system.workspace import why_no_place

TOKEN_BYTES: Final = 32
"""256 random bits: it cannot be guessed, and only its hash is stored."""

PROGRAM_PAUSE_SEC: Final = 60.0
"""Before it is looked again whether a missing program has been installed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnSeat:
    """A turn of a resident's process, as it is when the start is prepared."""

    process: str
    number: int
    known: Mapping[Part, str]
    """What the process was told before, of what changes."""
    session: str | None
    """Offered to a new process."""

    @property
    def is_first(self) -> bool:
        return self.number == 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A flight that may start, with what its start is made of."""

    factory: Factory
    agent: Agent
    runner: Runner
    flight: Flight
    """The first of those that wake it."""
    chain: Itinerary
    """The itinerary of the flight: its flags, scope and budgets."""
    run_id: str
    token: str = field(repr=False)
    joined: tuple[Flight, ...] = ()
    """All that a join released together, in their order; empty: the flight alone wakes it."""
    memory: bytes = b""
    memory_total: int = 0
    handover: str | None = None
    estimate_tokens: int = 0
    turn: TurnSeat | None = None
    """Of a resident: where in its process the run has its place."""

    def program(self, number: int) -> Program:
        """The program of it, when it is the agent's so many-eth run."""
        return Program(
            factory=self.factory,
            agent=self.agent,
            runner=self.runner,
            id=self.run_id,
            token=self.token,
            itinerary=self.flight.itinerary,
            number=number,
        )

    @property
    def flights(self) -> tuple[Flight, ...]:
        """What wakes it, in the order in which it is told."""
        return self.joined or (self.flight,)

    @property
    def token_sha256(self) -> str:
        """What the store keeps of the token."""
        return hash_of(self.token)


def hash_of(token: str) -> str:
    """The only form in which a token is kept."""
    return hashlib.sha256(token.encode()).hexdigest()


async def prepare(tower: Tower, factory: Factory, flight: Flight, chain: Itinerary) -> Prepared | Hold | None:
    """Everything that can be known before the claim, by the generation that the start was decided with.

    Returns a hold when the run could not start, and None when its resident takes no turn just now after all.
    """
    agent = factory.agent_in(flight.receiver, chain.pipeline, chain.choices)
    runner = factory.runners[agent.runner]
    turn = None
    if agent.resident:
        turn = _turn_of(tower, agent)
        if turn is None:
            return None
    memory, total = memory_of(tower.state.hangars, agent)
    prepared = Prepared(
        factory=factory,
        agent=agent,
        runner=runner,
        flight=flight,
        chain=chain,
        run_id=tower.new_id(ids.RUN),
        token=tower.chance(TOKEN_BYTES).hex(),
        joined=await _joined(tower, flight),
        memory=memory,
        memory_total=total,
        handover=await handover_for(tower, agent, flight, turn.process if turn and turn.is_first else None),
        turn=turn,
    )
    found = environment_of(tower, prepared.program(0))
    if isinstance(found, Missing):
        return Hold(HeldReason.ENVIRONMENT, f"{found}; {how_to_mend(found)}")
    nowhere = lacks_a_place(agent)
    if nowhere is not None:
        return Hold(HeldReason.ENVIRONMENT, nowhere)
    held = await confinement_of(tower, agent, runner)
    if held.refusal is not None:
        return Hold(HeldReason.ENVIRONMENT, held.refusal)
    told = payload_of(prepared, workspace=_place(tower, prepared))
    size = len(told.encode())
    estimate = estimate_tokens(size, runner.estimate_base, runner.estimate_per_byte)
    if agent.context_budget is not None and estimate > agent.context_budget:
        return Hold(
            HeldReason.OVER_BUDGET,
            f"what {agent.name} would be told has {size} bytes, some {estimate} tokens, which is"
            f" {estimate / agent.context_budget:.1f} times agents.{agent.name}.context_budget"
            f" ({agent.context_budget}); shorten it and send anew, or raise the budget",
        )
    program = argv_of(tower, prepared.program(0), _place(tower, prepared))[0]
    if not is_installed(program, agent.work_dir, found.values["PATH"]):
        return Hold(
            HeldReason.QUOTA,
            f"cannot find the program {program} of runner {runner.name}; install it, or put it on the tower's PATH",
            PROGRAM_PAUSE_SEC,
        )
    return replace(prepared, estimate_tokens=estimate)


def lacks_a_place(agent: Agent) -> str | None:
    """In words: why an agent has no place to work, and what to do about it; None when it has one."""
    why = why_no_place(agent.work_dir, writes=agent.access is Access.READ_WRITE)
    return None if why is None else f"{agent.name} has no place to work: {why[0]}; {why[1]}"


async def _joined(tower: Tower, flight: Flight) -> tuple[Flight, ...]:
    if flight.joined is None:
        return ()
    return tuple(await tower.store.read(partial(flights.together_with, flight=flight)))


def launch(tower: Tower, prepared: Prepared, *, number: int, workspace: str) -> Launch:
    """The start as one value, now that its number and its place are known.

    Raises `BusyError` when a variable went away since `prepare`: the next look holds the flight.
    """
    found = environment_of(tower, prepared.program(number))
    if isinstance(found, Missing):
        raise BusyError("environment", str(found), how_to_mend(found))
    agent, settings = prepared.agent, prepared.factory.settings
    return Launch(
        argv=argv_of(tower, prepared.program(number), workspace),
        env=found.values,
        secrets=(*found.secrets, prepared.token),
        forwarded=found.forwarded,
        payload=payload_of(prepared, workspace),
        limits=Limits(
            timeout=agent.timeout_sec,
            stall=agent.stall_sec,
            first_output=agent.first_output_sec,
            grace=settings.grace_sec,
            linger=agent.linger_sec,
            orphan=agent.orphan_sec,
        ),
        stop_signal=prepared.runner.stop_signal,
        files=files_of(tower, prepared.program(number)),
    )


def told_by(prepared: Prepared, workspace: str) -> dict[Part, str]:
    """What a resident knows after a turn, of what changes."""
    return told_anew(_briefing(prepared, workspace))


def _turn_of(tower: Tower, agent: Agent) -> TurnSeat | None:
    resident = tower.residents.get(agent.name)
    if resident is None or resident.process is None or resident.residence.state is not ResidentState.READY:
        return None
    process = resident.process
    return TurnSeat(
        process=process.id, number=process.turns + 1, known=resident.known, session=resident.offered_session
    )


def payload_of(prepared: Prepared, workspace: str) -> str:
    """What the run is told: everything, or in a later turn of a resident what is new."""
    briefing = _briefing(prepared, workspace)
    turn = prepared.turn
    return payload(briefing) if turn is None or turn.is_first else later_payload(briefing, turn.known)


def _briefing(prepared: Prepared, workspace: str) -> Briefing:
    factory, agent, flight = prepared.factory, prepared.agent, prepared.flight
    known = [
        (name, factory.agents.get(name))
        for name in factory.peers(agent.name, prepared.chain.scope)
        if _may_still_send(factory, prepared, name)
    ]
    peers = tuple(Peer(name=name, description=peer.description) for name, peer in known if peer and peer.enabled)
    return Briefing(
        agent=agent,
        runner=prepared.runner,
        run=prepared.run_id,
        itinerary=flight.itinerary,
        workspace=workspace,
        sender=flight.sender,
        body=flight.told,
        flags=prepared.chain.flags,
        joined=tuple(Letter(sender=it.sender, body=it.told) for it in prepared.joined),
        memory=prepared.memory,
        memory_total=prepared.memory_total,
        handover=prepared.handover,
        peers=peers,
        roster=_roster(factory, agent),
        tools=tuple(TOOLS) if prepared.runner.mcp is not None and prepared.runner.mcp.is_wired else (),
    )


def _roster(factory: Factory, agent: Agent) -> tuple[Peer, ...]:
    """All that an orchestrator is shown; others see whom they may send to alone."""
    if agent.position is not Position.ORCHESTRATOR:
        return ()
    others = (other for name, other in sorted(factory.agents.items()) if name != agent.name and other.enabled)
    return tuple(Peer(name=other.name, description=other.description) for other in others)


def _may_still_send(factory: Factory, prepared: Prepared, receiver: str) -> bool:
    """Whether the rails let the run send there: what would be refused for sure is not promised."""
    route = factory.route(prepared.agent.name, receiver, prepared.chain.scope)
    if route is not None and route.mode is RouteMode.SPAWN:
        return prepared.chain.spawn_generation < factory.settings.max_spawn_generations
    return min(flight.hops_remaining for flight in prepared.flights) > 0


def _place(tower: Tower, prepared: Prepared) -> str:
    if prepared.turn is not None and prepared.agent.access is Access.READ_ONLY:
        return str(resident_folder(prepared.factory, prepared.agent.name) / "tree")
    return planned_place(prepared.factory, prepared.agent, prepared.run_id)


def planned_place(factory: Factory, agent: Agent, run: str) -> str:
    """Where the run will work, as far as it can be told before its place is made."""
    if agent.access is Access.READ_WRITE:
        return agent.work_dir
    return str(Path(factory.settings.snapshots_dir) / run / "tree")
