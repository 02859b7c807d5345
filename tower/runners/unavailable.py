"""`unavailable:REASON`: always fails as a program whose quota or sign-in is gone, to rehearse just that."""

from __future__ import annotations

from typing import Final

from tower.core.evidence import Reading
from tower.core.factory import Agent, Runner
from tower.runners.invocation import SHELL, Invocation

_SCRIPT: Final = 'printf "%s\\n" "$1" >&2; exit 1'


def argv(runner: Runner, agent: Agent, *, context: Invocation) -> tuple[str, ...]:
    """A program that says the reason and fails, so that all around it happens as with a real one."""
    return (SHELL, "-c", _SCRIPT, "unavailable", runner.detail)


def read(runner: Runner, stdout_tail: bytes, report: str | None) -> Reading:
    """The reason; such a program used nothing."""
    return Reading(unavailable=runner.detail)
