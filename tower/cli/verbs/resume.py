"""`tower resume`: dispatch again after a drain."""

from __future__ import annotations

import click

from tower.cli import options, screen


@click.command("resume", short_help="Dispatch again after a drain.")
@options.socket
def command(socket: str | None) -> None:
    """End a drain: flights (messages) that waited are started again."""
    options.reach(socket).delete("/drain")
    screen.say("dispatching")
