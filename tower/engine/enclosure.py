"""What holds a run: how its agent is confined on this machine, and the walls for the place that was made for it.

The decision is `core.confinement`'s, what can be had finds `system.sandbox`; the keeper puts the walls up.
"""

from __future__ import annotations

import sys
from pathlib import Path

import anyio.to_thread

from tower.core.confinement import Abilities, Confinement, Mechanism, confine
from tower.core.factory import Agent, Runner
from tower.core.launch import Walls, Workspace
from tower.engine.program import Program, home_of, private_home
from tower.engine.tower import Tower
from tower.system.keeping import ROOT
from tower.system.sandbox import Surroundings, walls


async def confinement_of(tower: Tower, agent: Agent, runner: Runner) -> Confinement:
    """How runs of an agent are confined here. The first call tries what the machine can do."""
    if agent.sandbox == "off":
        return confine(agent, runner, Abilities())
    return confine(agent, runner, await anyio.to_thread.run_sync(tower.abilities))


def walls_around(tower: Tower, held: Confinement, workspace: Workspace, program: Program, folder: Path) -> Walls | None:
    """The walls of the run or process whose records lie in `folder`, in the place that was made for it."""
    if held.mechanism is Mechanism.NONE:
        return None
    settings, state, agent = tower.factory.settings, tower.state, program.agent.name
    home = private_home(tower, agent) if program.runner.private_home else None
    around = Surroundings(
        home=str(home or home_of(tower)),
        hidden=(str(state.root), settings.snapshots_dir, *_own_folder_of(Path(settings.socket))),
        socket=settings.socket,
        readable=(
            str(Path(tower.factory.path).parent),
            sys.prefix,
            sys.base_prefix,
            ROOT,
            str(state.door),
            str(state.hangar(agent)),
            workspace.repository or workspace.root,
            *(str(Path(skill.path).parent) for skill in program.agent.skills),
            *workspace.readable,
        ),
        writable=(*((str(home),) if home else ()), *workspace.writable, str(folder / "out"), str(folder / "tmp")),
        tmp=str(folder / "tmp"),
        cwd=workspace.path,
        overlay=workspace.overlay,
    )
    return walls(held, around, tower.abilities().bubblewrap)


def _own_folder_of(socket: Path) -> tuple[str, ...]:
    """The control socket's folder, where it was made for that alone."""
    return (str(socket.parent),) if socket.parent.name == "tower" else ()
