"""Where the memories of agents are, and how much of one is told."""

from __future__ import annotations

from pathlib import Path

from tower.core.factory import Agent
from tower.system.files import read_regular, size_of


def memory_file(hangars: Path, agent: Agent) -> Path:
    """Where an agent's memory is: in its own hangar, or beside the hangars where several share one."""
    if agent.memory is None:
        return hangars / agent.name / "memory.md"
    return hangars.parent / "memories" / f"{agent.memory}.md"


def memory_of(hangars: Path, agent: Agent) -> tuple[bytes, int]:
    """The end of an agent's memory, as much as it is told, and the size of the whole; bytes."""
    path, most = memory_file(hangars, agent), agent.memory_bytes
    return read_regular(path, most, tail=True) or b"", size_of(path)
