"""`tower runners`: what a person says of one runner."""

from __future__ import annotations

import click

from tower.cli import options, screen
from tower.client.api import quote


@click.group("runners", short_help="Use a runner again that could not work.")
def command() -> None:
    """Say what is to become of one runner (how an agent program is invoked)."""


@command.command("reset")
@options.socket
@click.argument("name")
def reset(socket: str | None, name: str) -> None:
    """Use a runner again at once whose provider was gone: its quota, its sign-in, the service."""
    answer = options.reach(socket).post(f"/runners/{quote(name)}/reset")
    screen.say(f"{name} is used again" if answer["was_open"] else f"{name} was in use all along")
