"""Floor 5: the composition root. Here is the way in; the life in the event loop is `life`, its end `signals`.

The order at a start: out of the place of process 1, environment read, configuration, log, state folder and its lock;
then the event loop.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import anyio

from tower.config.load import load
from tower.config.problems import Problem
from tower.config.rehearsal import rehearsal_runner, rehearse
from tower.core.errors import TowerError
from tower.core.factory import Factory
from tower.daemon import crash_points
from tower.daemon.life import Life
from tower.engine.reload import Configuration
from tower.system import logs, prctl
from tower.system.descriptors import raise_descriptor_limit
from tower.system.first_process import delegate_first_process
from tower.system.lock import lock_state
from tower.system.logs import Redaction
from tower.system.statedir import prepare
from tower.system.workspace import why_no_place


class ConfigurationError(TowerError):
    """The configuration has errors; `problems` lists them all, with the warnings."""

    def __init__(self, path: Path, problems: tuple[Problem, ...]) -> None:
        super().__init__(
            "configuration", f"cannot serve {path}: it has errors", "mend them; `tower validate` lists them"
        )
        self.problems = problems


def serve(config: Path, *, runner: str | None = None) -> None:
    """Be the tower of one configuration file until told to stop.

    `runner` is a spec that replaces every agent's runner, for a rehearsal of the whole factory.
    Raises `ConfigurationError`, `BusyError` (another tower serves this state folder), and `TowerError` for whatever
    else keeps it from starting.
    """
    delegate_first_process()
    environ = dict(os.environ)
    umask = os.umask(0o077)
    loaded = load(config, environ=environ)
    if loaded.factory is None:
        raise ConfigurationError(config, loaded.problems)
    _require_trees(loaded.factory)
    rehearsal = rehearsal_runner(runner, Path.cwd()) if runner else None
    prctl.make_undumpable()
    prctl.become_subreaper()
    descriptors = raise_descriptor_limit()
    redaction = Redaction()
    outlet = logs.configure(sys.stderr, logs.choose_form(sys.stderr, environ), redaction)
    try:
        crash_points.arm(environ)
        state = prepare(Path(loaded.factory.settings.state_dir))
        with lock_state(state.root) as lock:
            life = Life(
                environ=environ,
                umask=umask,
                descriptors=descriptors,
                redaction=redaction,
                state=state,
                lock=lock,
                configuration=Configuration(config, rehearsal=rehearsal, watched=loaded.watched),
                factory=rehearse(loaded.factory, rehearsal) if rehearsal else loaded.factory,
                warnings=tuple(str(problem) for problem in loaded.problems),
            )
            anyio.run(life.run)
    except ExceptionGroup as group:
        raise _cause_of(group) from group
    finally:
        outlet.drain()


def _require_trees(factory: Factory) -> None:
    """A live tree that is not there yet may be made later for `validate`, but nobody can work in it."""
    for agent in factory.agents.values():
        why = why_no_place(agent.work_dir, writes=False)
        if why is not None:
            raise TowerError(
                "config-work-dir",
                f"cannot serve {factory.path}: {agent.name} has no place to work: {why[0]}",
                f"{why[1]}; or name another folder in work_dir",
            )


def _cause_of(group: ExceptionGroup[Exception]) -> Exception:
    """The one error that a person should read, if the group is about one; else the group."""
    told, _ = group.split(TowerError)
    while told is not None:
        first = told.exceptions[0]
        if not isinstance(first, ExceptionGroup):
            return first
        told = first
    return group
