"""`tower prompt`: what a run would be told."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import click

from tower.cli import agents, bodies, factories, options, screen


@click.command("prompt", short_help="What a run of an agent would be told; starts nothing.")
@options.config
@click.argument("agent")
@click.argument("body", required=False)
@click.option("-p", "--pipeline", metavar="NAME", help="As in a chain of this pipeline.")
@options.flags
def command(config: str, agent: str, body: str | None, pipeline: str | None, flags: tuple[str, ...]) -> None:
    """Print exactly what a run of AGENT would receive for BODY, composed as for a real run. No tower is needed.

    BODY is the text, - for standard input, or @FILE, as in `tower send`; without one, it is what the pipeline says.
    """
    factory = factories.good(options.config_path(config))
    if pipeline is not None and pipeline not in factory.pipelines:
        raise agents.unknown(pipeline, factory.pipelines, "pipeline")
    if agent not in factory.agents:
        raise agents.unknown(agent, factory.agents)
    from tower.engine.preview import preview
    from tower.system.statedir import StateDir

    said = bodies.text(body) if body is not None else factory.pipelines[pipeline].body if pipeline is not None else None
    told = preview(
        factory,
        agent,
        said or "",
        hangars=StateDir(Path(factory.settings.state_dir)).hangars,
        person=_login(),
        pipeline=pipeline,
        flags=options.flag_values(flags),
    )
    screen.whole(told.encode(errors="surrogateescape"))


def _login() -> str:
    """Who would be named as the sender: the same person that the control socket would see."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
