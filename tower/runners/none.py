"""`none`: declared, never started. The dispatcher holds its flights; asking for an argv is refused all the same."""

from __future__ import annotations

from tower.core.errors import RefusedError
from tower.core.evidence import Reading
from tower.core.factory import Agent, Runner
from tower.runners.invocation import Invocation


def argv(runner: Runner, agent: Agent, *, context: Invocation) -> tuple[str, ...]:
    """Raises `RefusedError`: there is no program."""
    raise RefusedError(
        "runner-none",
        f"cannot start {agent.name}: its runner is none",
        f"set agents.{agent.name}.runner to a program",
    )


def read(runner: Runner, stdout_tail: bytes, report: str | None) -> Reading:
    """Nothing ran, so nothing is known."""
    return Reading()
