"""What going over from one generation to the next would do to each agent, and to the process of a resident.

What differs in words is `config.changes`'; carrying it out is left to the engine.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from tower.core.factory import Factory
from tower.core.residence import fingerprint


class Change(StrEnum):
    """What becomes of an agent."""

    UNTOUCHED = "untouched"
    """Nothing of it, or of its runner, is different."""
    CHANGED = "changed"
    """Its next run has it as it is then; what runs goes on with what it began with."""
    ADDED = "added"
    REMOVED = "removed"
    """What runs goes on; what waits for it is held."""


class ProcessChange(StrEnum):
    """What becomes of the process of a resident."""

    KEPT = "kept"
    REPLACED = "replaced"
    """When its turn is over."""
    STARTED = "started"
    ENDED = "ended"
    """When its turn is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Consequence:
    """For one agent."""

    agent: str
    change: Change
    process: ProcessChange | None
    """None: it is no resident before or after."""


def consequences(old: Factory, new: Factory) -> tuple[Consequence, ...]:
    """For every agent of both, in the order of the new one; those that are removed come last."""
    names = (*new.agents, *(name for name in old.agents if name not in new.agents))
    return tuple(
        Consequence(agent=name, change=_change(name, old, new), process=_process(name, old, new)) for name in names
    )


def _change(name: str, old: Factory, new: Factory) -> Change:
    if name not in old.agents:
        return Change.ADDED
    if name not in new.agents:
        return Change.REMOVED
    before, after = old.agents[name], new.agents[name]
    # Where a value came from changes nothing for a run.
    same = replace(before, origins={}) == replace(after, origins={})
    return Change.UNTOUCHED if same and old.runners[before.runner] == new.runners[after.runner] else Change.CHANGED


def _process(name: str, old: Factory, new: Factory) -> ProcessChange | None:
    if name not in old.residents:
        return ProcessChange.STARTED if name in new.residents else None
    if name not in new.residents:
        return ProcessChange.ENDED
    same = _fingerprint(name, old) == _fingerprint(name, new)
    return ProcessChange.KEPT if same else ProcessChange.REPLACED


def _fingerprint(name: str, factory: Factory) -> str:
    agent = factory.agents[name]
    return fingerprint(agent, factory.runners[agent.runner])
