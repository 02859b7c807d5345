"""The program of a start: its argument vector and its environment, for a run and for a resident's process alike.

The variables are `core.environment`'s, the command `runners`'; here is where their values are found.
"""

from __future__ import annotations

import os
import pwd
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tower.core import environment
from tower.core.environment import Environment, Missing
from tower.core.factory import Agent, Factory, Runner
from tower.engine.tower import Tower
from tower.runners import Invocation, of, tools
from tower.system import fake_agent
from tower.system.files import read_regular
from tower.system.statedir import DOOR


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What is to be started, as far as its command and its variables depend on it."""

    factory: Factory
    agent: Agent
    runner: Runner
    id: str
    """Of the run, or of the resident's process: all processes below it carry it."""
    token: str = field(default="", repr=False)
    itinerary: str = ""
    number: int = 0
    is_resident: bool = False
    session: str | None = None
    """What an earlier process of a resident called its conversation."""

    def folder(self, tower: Tower) -> Path:
        """Where its records and logs lie."""
        return tower.state.run_folder(self.agent.name, self.id)


def environment_of(tower: Tower, program: Program) -> Environment | Missing:
    """The whole environment, or what stands in its way."""
    folder = program.folder(tower)
    agent = program.agent
    layover = {
        "LAYOVER_AGENT": agent.name,
        "LAYOVER_RUN_ID": program.id,
        "LAYOVER_RUN_NUMBER": str(program.number),
        "LAYOVER_ITINERARY": program.itinerary,
        "LAYOVER_MODEL": agent.model or "",
        "LAYOVER_EFFORT": agent.effort or "",
        "LAYOVER_TIER": agent.tier or "",
        "LAYOVER_CONTEXT": agent.context or "",
        "LAYOVER_SOCKET": str(tower.state.door / DOOR),
        "LAYOVER_MCP_URL": tower.mcp_url,
        "LAYOVER_RUN_TOKEN": program.token,
        "LAYOVER_REPORT": str(folder / "out" / "report"),
    }
    layover |= tools.offer(program.runner, tower.mcp_url, str(folder)).env
    if program.is_resident:
        layover["LAYOVER_PROTOCOL"] = program.runner.protocol or ""
        layover["LAYOVER_SESSION"] = program.session or ""
    return environment.build(
        own=_with_tower_on_path(tower.environ, tower.python),
        credentials=lambda name: credential(tower.environ, name),
        agent=agent,
        runner=program.runner,
        layover=layover,
        home=_home(tower, program),
        tmpdir=str(folder / "tmp"),
        private_home=program.runner.private_home,
    )


def argv_of(tower: Tower, program: Program, workspace: str) -> tuple[str, ...]:
    """The command with its placeholders filled. Raises `RefusedError` for a runner that starts nothing."""
    folder = program.folder(tower)
    invocation = Invocation(
        workspace=workspace,
        run_dir=str(folder),
        mcp_url=tower.mcp_url,
        prompt=None if program.is_resident else str(folder / "payload.md"),
        session=program.session,
        config_dir=str(Path(program.factory.path).parent),
        python=tower.python,
        fake_agent=fake_agent.__file__,
    )
    return of(program.runner).argv(program.runner, program.agent, context=invocation)


def files_of(tower: Tower, program: Program) -> Mapping[str, str]:
    """What is written into the folder of a start, for its program to read: name -> text, without any secret."""
    return tools.offer(program.runner, tower.mcp_url, str(program.folder(tower))).files


def is_installed(program: str, work_dir: str, path: str) -> bool:
    """Whether a program is there. A relative path counts from where the run works; snapshots are of that place."""
    named = str(Path(work_dir, program)) if "/" in program else program
    return shutil.which(named, path=path) is not None


def how_to_mend(missing: Missing) -> str:
    if all(variable.is_absent for variable in missing.variables):
        return "set it where the tower is started and restart, or put it among its credentials"
    return "change what is declared, or its value"


def credential(environ: Mapping[str, str], name: str) -> str | None:
    """A secret that the service manager handed over as a file (`LoadCredential=`)."""
    folder = environ.get("CREDENTIALS_DIRECTORY")
    if not folder or "/" in name or name.startswith("."):
        return None
    raw = read_regular(Path(folder) / name, environment.MAX_BYTES)
    return None if raw is None else raw.decode(errors="surrogateescape").removesuffix("\n")


def _home(tower: Tower, program: Program) -> str:
    """The agent's own folder where its runner asks for one, else the tower's home."""
    if program.runner.private_home:
        own = private_home(tower, program.agent.name)
        own.mkdir(mode=0o700, parents=True, exist_ok=True)
        return str(own)
    return home_of(tower)


def private_home(tower: Tower, agent: str) -> Path:
    """The home folder of an agent whose runner asks for one of its own."""
    return tower.state.hangar(agent) / "home"


def home_of(tower: Tower) -> str:
    """The tower's HOME, else the passwd entry's, else (a container's uid may have none) a folder of the tower's own."""
    home = tower.environ.get("HOME")
    if home:
        return home
    try:
        return pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:
        own = tower.state.root / "home"
        own.mkdir(mode=0o700, exist_ok=True)
        return str(own)


def _with_tower_on_path(environ: Mapping[str, str], python: str) -> dict[str, str]:
    """With the folder that `tower` is installed in at the end of PATH, so that a run finds `tower send`."""
    path = environ.get("PATH") or environment.DEFAULT_PATH
    return dict(environ) | {"PATH": f"{path}:{Path(python).parent}"}
