"""Starts that are only imagined: what a run would be told, and whether what a held flight waited for is there now.

Made of the same pieces as a real start, which `compose` prepares; nothing is started and nothing written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from tower.core import ids
from tower.core.environment import Missing
from tower.core.factory import PERSON, Factory
from tower.core.pipelines import flags_of
from tower.core.records import Flight, Itinerary, Sender
from tower.engine.compose import Prepared, lacks_a_place, payload_of, planned_place
from tower.engine.memories import memory_of
from tower.engine.program import environment_of
from tower.engine.tower import Tower

_NO_ULID: Final = "_" + "0" * 26
"""Stands for what is not given before there is anything."""


def preview(
    factory: Factory,
    name: str,
    body: str,
    *,
    hangars: Path,
    person: str,
    pipeline: str | None = None,
    flags: Mapping[str, bool] | None = None,
) -> str:
    """Exactly what a run of an agent would be told if `person` sent it `body` now; nothing is started.

    In a chain of `pipeline`, `flags` being those that do not have their default. Raises `KeyError` for an agent or a
    pipeline that there is not, `InvalidError` for a flag that is not declared.
    """
    way_in = factory.pipelines[pipeline] if pipeline is not None else None
    agent = factory.agent_in(name, pipeline)
    memory, total = memory_of(hangars, agent)
    flight = Flight(
        id=ids.FLIGHT + _NO_ULID,
        itinerary=ids.ITINERARY + _NO_ULID,
        sender=Sender(kind=PERSON, name=person),
        receiver=name,
        body=body,
        created_at=0.0,
        hops_remaining=factory.settings.max_hops - 1,
    )
    prepared = Prepared(
        factory=factory,
        agent=agent,
        runner=factory.runners[agent.runner],
        flight=flight,
        chain=replace(_imagined(flight, factory), pipeline=pipeline, flags=flags_of(way_in, flags or {})),
        run_id=ids.RUN + _NO_ULID,
        token="",
        memory=memory,
        memory_total=total,
    )
    return payload_of(prepared, workspace=planned_place(factory, agent, prepared.run_id))


def is_wanting(tower: Tower, flight: Flight) -> bool:
    """Whether what the receiver needs around it, its declared variables and its work tree, is still not there."""
    agent = tower.factory.agents.get(flight.receiver)
    if agent is None or lacks_a_place(agent) is not None:
        return True
    prepared = Prepared(
        factory=tower.factory,
        agent=agent,
        runner=tower.factory.runners[agent.runner],
        flight=flight,
        chain=_imagined(flight, tower.factory),
        run_id=ids.RUN + _NO_ULID,
        token="",
    )
    return isinstance(environment_of(tower, prepared.program(0)), Missing)


def _imagined(flight: Flight, factory: Factory) -> Itinerary:
    """The chain that a person's flight to an entry agent would open."""
    settings = factory.settings
    return Itinerary(
        id=flight.itinerary,
        created_at=flight.created_at,
        max_hops=settings.max_hops,
        max_runs=settings.max_runs,
        fuel_limit=factory.agents[flight.receiver].fuel,
    )
