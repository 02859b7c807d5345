"""A factory in sentences, for somebody who did not write its file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from tower.cli import words
from tower.core.costs import dollars
from tower.core.factory import Access, Position, RecoveryPolicy

if TYPE_CHECKING:
    from tower.core.factory import Agent, Factory, Reserve
    from tower.core.pipelines import Pipeline

_RECOVERY: Final = {
    RecoveryPolicy.AUTOMATIC: "is started again",
    RecoveryPolicy.MANUAL: "waits for a person (`tower recover`)",
    RecoveryPolicy.NEVER: "is given up",
}


def paragraphs(factory: Factory, explained: Sequence[dict[str, Any]]) -> Iterator[str]:
    """The whole and its ways in, a paragraph for each agent (`config.explained` has their documents), the rails."""
    yield f"{factory.path} describes {words.count(len(factory.agents), 'agent')}. {_ways_in(factory)}"
    for one in explained:
        yield _agent(factory.agents[one["name"]], one)
    yield _rails(factory)
    yield _places(factory)
    missing = sorted({it["name"] for one in explained for it in one["variables"] if not it["is_set"]})
    if missing:
        yield f"Not set now: {_listed(missing)}. Flights (messages) whose agent needs one are held until it is set."


def _ways_in(factory: Factory) -> str:
    entries = [name for name, agent in factory.agents.items() if agent.entry]
    told = [f"A person may send to {_listed(entries)}."] if entries else []
    told += [_pipeline(pipeline) for pipeline in factory.pipelines.values()]
    return " ".join(told)


def _pipeline(pipeline: Pipeline) -> str:
    flags = [f"{name} ({'on' if flag.default else 'off'} unless said)" for name, flag in pipeline.flags.items()]
    switched = f", with flags: {', '.join(flags)}" if flags else ""
    return f"The pipeline {pipeline.name} begins at {pipeline.entry}{switched}."


def _agent(agent: Agent, explained: dict[str, Any]) -> str:
    about = f" ({agent.description.rstrip('.')})" if agent.description else ""
    place = "a snapshot of" if agent.access is Access.READ_ONLY else "the live tree"
    model = f" with model {agent.model}" if agent.model else ""
    told = [f"{agent.name}{about} works in {place} {agent.work_dir}; its runner is {agent.runner}{model}."]
    if not agent.enabled:
        told.append("It is disabled: work for it is refused.")
    if agent.resident:
        told.append("One process of it is kept alive for all its messages.")
    if agent.position is Position.ORCHESTRATOR:
        told.append("It is the orchestrator, and sees every agent.")
    senders = list(explained["woken_by"])
    senders += ["a person" if way == "person" else f"the pipeline {way}" for way in explained["ways_in"]]
    told.append(f"It takes messages from {_listed(senders) or 'nobody'}.")
    if explained["ways_in"]:
        told.append(f"A chain that begins at it may spend {dollars(agent.fuel)} (its Fuel).")
    told.append(f"It may send to {_listed(explained['sends_to']) or 'nobody'}.")
    told.append(f"Work of it that was cut off {_RECOVERY[agent.recovery]}.")
    return " ".join(told)


def _rails(factory: Factory) -> str:
    settings = factory.settings
    writers = "several may write in one live tree" if settings.shared_writers else "one at a time writes in a live tree"
    return (
        f"An itinerary (chain) may be {words.count(settings.max_hops, 'flight')} deep and have"
        f" {words.count(settings.max_runs, 'run')}. At most {words.count(settings.max_concurrent_runs, 'run')} at once;"
        f" {writers}. {_spending(factory.reserve)}"
    )


def _spending(reserve: Reserve) -> str:
    if reserve.fuel == 0:
        return "What all chains together spend is not limited."
    return f"All chains together may spend {dollars(reserve.fuel)} in {reserve.window_hours:g} h (the Reserve)."


def _places(factory: Factory) -> str:
    settings = factory.settings
    return f"State, logs and memories are kept in {settings.state_dir}; the control socket is {settings.socket}."


def _listed(names: Sequence[str]) -> str:
    return " and ".join((", ".join(names[:-1]), names[-1])) if len(names) > 1 else "".join(names)
