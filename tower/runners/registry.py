"""Which kind of runner is which module."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from tower.core.evidence import Reading
from tower.core.factory import Agent, Runner
from tower.runners import cmd, command, fake, none, unavailable
from tower.runners.invocation import Invocation


class Kind(Protocol):
    """What every kind of runner can do."""

    def argv(self, runner: Runner, agent: Agent, *, context: Invocation) -> tuple[str, ...]:
        """The program and its arguments. Raises `RefusedError` when this kind starts nothing."""
        ...

    def read(self, runner: Runner, stdout_tail: bytes, report: str | None) -> Reading:
        """What the end of the standard output, and the report file (None: not written), say about the run."""
        ...


_KINDS: Final[Mapping[str, Kind]] = {
    "command": command,
    "cmd": cmd,
    "fake": fake,
    "unavailable": unavailable,
    "none": none,
}


def closes_with_a_record(runner: Runner) -> bool:
    """Whether its program prints a result record as the last it does, so that one that stays after that has hung."""
    return runner.output in command.READERS


def of(runner: Runner) -> Kind:
    """The kind of a runner. Raises `KeyError` for one that `config` would not have accepted."""
    return _KINDS[runner.kind]
