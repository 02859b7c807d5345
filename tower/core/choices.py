"""What is asked of agents' runners in place of the agents' own: by a pipeline for its chains, or for one chain alone.

Whoever starts a chain chooses for it, never an agent; the choice then holds for the whole chain.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tower.core.factory import Agent

KEYS: Final = ("model", "effort", "context")
"""What may be asked for, beside further arguments."""

SENDER: Final = "the sender"
"""Origin of what was chosen for one chain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What is asked of one agent's runner."""

    values: Mapping[str, str | None] = field(default_factory=dict)
    """`model`, `effort` and `context`, where they are set; None is an explicit none."""
    args: tuple[str, ...] = ()
    """Added after those that the agent has already."""


def chosen(agent: Agent, choice: Choice | None, origin: str) -> Agent:
    """The agent with what is asked of it; `origin` says in its record who asked."""
    if choice is None:
        return agent
    changes: dict[str, Any] = dict(choice.values)
    if choice.args:
        changes["args"] = (*agent.args, *choice.args)
    return replace(agent, **changes, origins={**agent.origins, **dict.fromkeys(changes, origin)})


def as_document(choices: Mapping[str, Choice]) -> dict[str, dict[str, Any]]:
    """Choices by agent as plain data; `from_document` reads it again."""
    return {name: {**choice.values, "args": list(choice.args)} for name, choice in choices.items()}


def from_document(document: Mapping[str, Mapping[str, Any]]) -> dict[str, Choice]:
    """The choices that `as_document` wrote."""
    return {
        name: Choice(
            values={key: asked[key] for key in KEYS if key in asked},
            args=tuple(asked["args"]),
        )
        for name, asked in document.items()
    }
