"""`tower reject`: refuse a flight to an agent that people guard."""

from __future__ import annotations

import click

from tower.cli import options, screen
from tower.client.api import quote


@click.command("reject", short_help="Refuse a flight (message) that waits for approval.")
@options.socket
@click.argument("flight", metavar="ID")
@click.option("--why", metavar="TEXT", required=True, help="The reason, for the record and for the chain that sent it.")
def command(socket: str | None, flight: str, why: str) -> None:
    """Refuse the flight (message) ID to an agent that has approve = true. Nothing of it is started."""
    answer = options.reach(socket).post(f"/flights/{quote(flight)}/reject", {"why": why})
    screen.out(answer["id"])
    screen.say(f"rejected: {answer['to']} will not be started by it")
