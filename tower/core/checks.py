"""Each single check of whether a flight may start: the reason why not, or None.

Their order, and whose turn it is, is `admission`'s.
"""

from __future__ import annotations

from tower.core.costs import dollars
from tower.core.factory import Access, Agent, Factory
from tower.core.rails import Decision, Hold, Rails, Refuse, Room, Wait, tree_of
from tower.core.records import Flight, Itinerary
from tower.core.states import HeldReason


def factory_stands(rails: Rails) -> Decision | None:
    """Whether anything may start at all."""
    if rails.ground_stop is not None:
        return Hold(HeldReason.GROUND_STOP, f"ground stop: {rails.ground_stop}; `tower ground-stop off` releases it")
    if rails.draining:
        return Wait("the tower is draining: nothing starts until `tower resume`")
    return None


def route_stands(flight: Flight, itinerary: Itinerary, factory: Factory) -> Decision | None:
    """Whether its sender may still send there."""
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


def agent_stands(flight: Flight, factory: Factory) -> Decision | None:
    """Whether its receiver is there and can be started."""
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


def is_approved(flight: Flight, agent: Agent) -> Decision | None:
    """Whether a person has let it go to an agent that is guarded."""
    if not agent.approve or flight.approved_at is not None:
        return None
    return Hold(
        HeldReason.APPROVAL,
        f"flights to {agent.name} wait for a person: `tower approve {flight.id}` lets it go,"
        f" `tower reject {flight.id} --why WORDS` refuses it",
    )


def chain_stands(itinerary: Itinerary) -> Decision | None:
    """Whether its chain is still wanted."""
    if itinerary.cancelled_at is not None:
        return Refuse("its itinerary was cancelled; send anew what is still wanted")
    return None


def within_run_cap(itinerary: Itinerary, room: Room) -> Decision | None:
    """Whether its chain may have one more run."""
    if itinerary.runs_started + room.started[itinerary.id] >= itinerary.max_runs:
        return Refuse(f"its itinerary has had {_runs(itinerary.max_runs)}; raise defaults.max_runs and send anew")
    return None


def is_due(flight: Flight, rails: Rails) -> Decision | None:
    """Whether its time has come."""
    if flight.not_before is not None and flight.not_before > rails.now:
        return Wait(f"not before {flight.not_before - rails.now:.0f} s from now")
    return None


def is_let_work(agent: Agent, room: Room, rails: Rails) -> Decision | None:
    """Whether nobody paused its receiver, and a resident has a process that is free."""
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


def has_slot(agent: Agent, factory: Factory, room: Room, rails: Rails) -> Decision | None:
    """Whether a process more may be alive; a resident has its slot for good."""
    most = factory.settings.max_concurrent_runs
    kept = len({*factory.residents, *rails.residents})
    if agent.resident or room.transient + kept < most:
        return None
    residents = f", {kept} of them kept for residents" if kept else ""
    return Wait(f"all {most} slots are taken{residents} (defaults.max_concurrent_runs)")


def within_caps(agent: Agent, factory: Factory, room: Room) -> Decision | None:
    """Whether the agent and its runner may have one more run."""
    runner = factory.runners[agent.runner]
    if agent.max_concurrent is not None and room.agents[agent.name] >= agent.max_concurrent:
        return Wait(f"agent {agent.name} has {_runs(agent.max_concurrent)} (agents.{agent.name}.max_concurrent)")
    if runner.max_concurrent is not None and room.runners[runner.name] >= runner.max_concurrent:
        return Wait(f"runner {runner.name} has {_runs(runner.max_concurrent)} (runners.{runner.name}.max_concurrent)")
    return None


def _runs(most: int) -> str:
    return "its one run" if most == 1 else f"all of its {most} runs"


def circuit_is_closed(agent: Agent, room: Room, rails: Rails) -> Decision | None:
    """Whether the runner can work, as far as is known; one flight may find out when its time has come."""
    circuit = rails.circuits.get(agent.runner)
    if circuit is None:
        return None
    if circuit.is_open(rails.now):
        return Hold(HeldReason.QUOTA, circuit.words(), circuit.until - rails.now)
    if circuit.probe is not None or agent.runner in room.probed:
        return Wait(f"runner {agent.runner} could not work ({circuit.reason}), and is being tried with one flight")
    return None


def has_writer_seat(agent: Agent, itinerary: Itinerary, factory: Factory, room: Room) -> Decision | None:
    """Whether nobody else writes in its tree."""
    if agent.access is not Access.READ_WRITE or factory.settings.shared_writers:
        return None
    tree = tree_of(agent, itinerary.id, own_worktree=factory.has_own_worktree(itinerary.pipeline))
    holder = room.trees.get(tree)
    return None if holder is None else Wait(f"{holder} is writing in {tree}: one writer at a time")


def has_fuel(agent: Agent, itinerary: Itinerary, room: Room, rails: Rails) -> Decision | None:
    """Whether its chain can pay what a run of the agent is expected to cost."""
    expected = rails.books.estimates.get(agent.name, 0)
    reserved = itinerary.fuel_reserved + room.fuel[itinerary.id]
    if itinerary.fuel_spent + reserved + expected <= itinerary.fuel_limit:
        return None
    aside = f" and set {dollars(reserved)} aside for runs under way" if reserved else ""
    return Hold(
        HeldReason.FUEL,
        f"its itinerary has spent {dollars(itinerary.fuel_spent)}{aside} of its {dollars(itinerary.fuel_limit)} of"
        f" Fuel, and a run of {agent.name} is expected to cost {dollars(expected)};"
        f" `tower refuel {itinerary.id} USD` adds to it",
    )


def has_reserve(agent: Agent, factory: Factory, room: Room, rails: Rails) -> Decision | None:
    """Whether the factory may spend what a run of the agent is expected to cost; with the moment when it may."""
    limit, window = factory.reserve.fuel, rails.books.window
    expected = rails.books.estimates.get(agent.name, 0)
    wanted = room.reserve + expected
    if limit == 0 or window.total + wanted <= limit:
        return None
    moment = window.frees_at(limit, wanted)
    return Hold(
        HeldReason.RESERVE,
        f"the factory has spent {dollars(window.spent)} in {factory.reserve.window_hours:g} hours and set"
        f" {dollars(window.reserved + room.reserve)} aside, of {dollars(limit)} (reserve.fuel_usd), and a run of"
        f" {agent.name} is expected to cost {dollars(expected)}; raise it, or wait until older runs leave the window",
        None if moment is None else max(0.0, moment - rails.now),
    )


def has_disk(factory: Factory, rails: Rails) -> Decision | None:
    """Whether there is space for what a run writes."""
    floor = factory.settings.min_free_bytes
    if rails.free_bytes is not None and rails.free_bytes < floor:
        return Hold(
            HeldReason.DISK,
            f"the disk of the state folder has {rails.free_bytes >> 20} MiB free, less than layover.min_free_mb"
            f" ({floor >> 20}); free some, then it goes on by itself",
        )
    return None
