"""A rehearsal of a whole factory: every agent by one runner, given as a spec on the command line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tower.config.runners import read_script
from tower.core.errors import InvalidError
from tower.core.factory import Factory, Runner
from tower.core.fake_script import Script
from tower.core.runner_spec import parse_spec


def rehearsal_runner(spec: str, folder: Path) -> Runner:
    """The runner of a spec; a relative `fake:FILE` is looked for in `folder`.

    Raises `InvalidError` for what is no spec, or names a file that is not there.
    """
    runner = parse_spec(spec)
    if runner.kind != "fake":
        return runner
    file = (folder / runner.detail).absolute()
    script = read_script(file)
    if not isinstance(script, Script):
        raise InvalidError("runner-unknown", f"cannot rehearse with {spec!r}: it {script[0]}", script[1])
    return replace(runner, detail=str(file), output=script.output)


def rehearse(factory: Factory, runner: Runner) -> Factory:
    """The same factory with this runner for every agent; models of other runners are dropped with them.

    Where the runner's program cannot stay, residents are started for each flight like everybody else.
    """
    agents = {
        name: replace(
            agent,
            runner=runner.name,
            model=None,
            resident=agent.resident and runner.protocol is not None,
            origins={**agent.origins, "runner": "--runner"},
        )
        for name, agent in factory.agents.items()
    }
    return replace(factory, agents=agents, runners={**factory.runners, runner.name: runner})
