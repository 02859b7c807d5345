"""An agent in full, as one document: each value with where it came from, what holds for its runs, whom it deals with.

The values are `written`'s, what is enforced is `core.bounds`'; which variables are set is the caller's to know.
"""

from __future__ import annotations

from collections.abc import Callable

from tower.config import written
from tower.config.written import Document
from tower.core.bounds import bounds
from tower.core.confinement import Abilities, confine
from tower.core.factory import Agent, Factory


def explained(
    factory: Factory, name: str, is_set: Callable[[str], bool], can: Abilities, *, pipeline: str | None = None
) -> Document:
    """What the agent `name` is, in the chains of a pipeline if one is given.

    `is_set` is asked about variables; `can` is how this machine can confine runs. Raises `KeyError` for a name that no
    agent has.
    """
    agent = factory.agent_in(name, pipeline)
    return {
        "name": name,
        "values": written.agent(agent),
        **surroundings(factory, agent, is_set, can),
    }


def surroundings(factory: Factory, agent: Agent, is_set: Callable[[str], bool], can: Abilities) -> Document:
    """What does not stand in its own table."""
    said = bounds(factory, agent, confine(agent, factory.runners[agent.runner], can))
    name = agent.name
    return {
        "enforced": [it.words for it in said if it.enforced],
        "advisory": [it.words for it in said if not it.enforced],
        "variables": [
            {"name": variable, "declared_by": key, "is_set": is_set(variable)}
            for variable, key in sorted(agent.env_from.items())
        ],
        "sends_to": sorted({route.receiver for route in factory.routes if route.sender == name}),
        "woken_by": sorted({route.sender for route in factory.routes if route.receiver == name}),
        "ways_in": [
            *(["person"] if agent.entry else []),
            *(way.name for way in factory.pipelines.values() if way.entry == name),
        ],
    }
