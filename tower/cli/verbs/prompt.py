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
@click.argument("body", default="")
def command(config: str, agent: str, body: str) -> None:
    """Print exactly what a run of AGENT would receive for BODY, composed as for a real run. No tower is needed.

    BODY is the text, - for standard input, or @FILE, as in `tower send`.
    """
    factory = factories.good(options.config_path(config))
    if agent not in factory.agents:
        raise agents.unknown(agent, factory.agents)
    from tower.engine.preview import preview
    from tower.system.statedir import StateDir

    hangars = StateDir(Path(factory.settings.state_dir)).hangars
    told = preview(factory, agent, bodies.text(body), hangars=hangars, person=_login())
    screen.whole(told.encode(errors="surrogateescape"))


def _login() -> str:
    """Who would be named as the sender: the same person that the control socket would see."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
