"""What an argv may speak of: the facts of one start that are not in the configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

SHELL: Final = "/bin/sh"

ANSWER_BYTES: Final = 1 << 20
"""How much of the end of standard output is the answer: as much as a flight's body holds by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """One start. All paths are absolute."""

    workspace: str
    run_dir: str
    mcp_url: str = ""
    """Where the tower's tools are."""
    prompt: str | None
    """The payload file; a resident has none, it is told turn by turn."""
    session: str | None = None
    """What an earlier process of a resident called its conversation."""
    config_dir: str
    """The folder of the configuration file."""
    python: str
    """The interpreter that runs the tower: the scripted agent runs on the same one."""
    fake_agent: str
    """The scripted agent's program file."""
