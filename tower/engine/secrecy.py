"""Which values are masked while a run or a resident's process lives, and how a later tower finds them again.

They are in no file. A tower that finds a run alive looks where they still are: in the environment of the run's own
processes, and in what it was itself started with, by the names that were passed on. These are no secret: the folder
of the run has them, and the configuration.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Final

import anyio.to_thread

from tower.core import environment
from tower.core.factory import Agent, Runner
from tower.core.records import Process
from tower.engine.program import credential
from tower.engine.tower import LiveRun, Resident, Tower
from tower.runners.tools import TOKEN
from tower.system import procfs
from tower.system.files import read_regular
from tower.system.survivors import MARKER

ARGV: Final = "argv.json"
"""In the folder of a run: its command, and the names of its variables."""

LOOKED_INTO: Final = 16
"""Processes of a run whose environment is read, the nearest to its keeper first; they inherit from each other."""

MAX_BYTES: Final = 1 << 20


def keep(tower: Tower, holder: LiveRun | Resident, secrets: tuple[str, ...]) -> None:
    """Mask these values from now on, in the place of those that the holder had."""
    tower.redaction.add(secrets)
    tower.redaction.remove(holder.secrets)
    holder.secrets = secrets


async def keep_found(
    tower: Tower, holder: LiveRun | Resident, agent: Agent | None, runner: Runner | None, process: Process, keeper: int
) -> None:
    """The same for what an earlier tower started, and what is there now of its agent and runner.

    `keeper` is the pid of the keeper that watches over the process.
    """
    literals = agent.env if agent else {}
    declared = environment.forwarded_names(agent, runner) if agent and runner else {}
    identity = holder.run.id if isinstance(holder, LiveRun) else process.id

    def look() -> tuple[str, ...]:
        known = environment.secret_names(declared, literals)
        names = {TOKEN, *known, *environment.secret_names(_written_down(Path(process.folder, ARGV)))}
        own = (tower.environ.get(name) or credential(tower.environ, name) for name in known)
        values = [value for value in own if value]
        for pid in _processes_of(identity, keeper):
            pairs = (os.fsdecode(pair).partition("=") for pair in procfs.environ(pid))
            values += [value for name, _, value in pairs if value and name in names]
        return tuple(dict.fromkeys(values))

    keep(tower, holder, await anyio.to_thread.run_sync(look))


def _processes_of(identity: str, keeper: int) -> list[int]:
    marker = f"{MARKER}={identity}".encode()
    return [pid for pid in procfs.descendants(keeper) if marker in procfs.environ(pid)][:LOOKED_INTO]


def _written_down(path: Path) -> list[str]:
    """The names that were passed on. The file lies where a program may have written to it."""
    try:
        shown = json.loads(read_regular(path, MAX_BYTES) or b"")
    except (ValueError, RecursionError):
        return []
    names = shown.get("forwarded") if isinstance(shown, dict) else None
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
