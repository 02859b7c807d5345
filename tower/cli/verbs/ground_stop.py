"""`tower ground-stop`: the kill switch."""

from __future__ import annotations

import click

from tower.cli import options, screen
from tower.core.errors import UnreachableError


@click.group("ground-stop", short_help="The kill switch: end what runs, start nothing.")
def command() -> None:
    """Engage or release the ground stop (the kill switch)."""


@command.command("on")
@options.socket
@click.argument("why", nargs=-1)
def on(socket: str | None, why: tuple[str, ...]) -> None:
    """Start nothing any more and end every run; WHY, all that follows, is shown wherever the stop is. It survives
    restarts."""
    try:
        options.reach(socket).post("/ground-stop", {"why": " ".join(why)})
    except UnreachableError as error:
        # The switch is a file, so that it works when nothing answers.
        if folder := options.state_dir():
            error.hint = f"it works without an answer: touch {folder}/ground-stop"
        raise
    screen.say("ground stop is on: nothing starts, and runs are being ended")


@command.command("off")
@options.socket
def off(socket: str | None) -> None:
    """Let held flights (messages) go on. Runs that the stop ended are not started again by this."""
    options.reach(socket).delete("/ground-stop")
    screen.say("ground stop is off")
