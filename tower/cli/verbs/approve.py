"""`tower approve`: let a flight go to an agent that people guard."""

from __future__ import annotations

import click

from tower.cli import options, screen
from tower.client.api import quote


@click.command("approve", short_help="Let a flight (message) go that waits for approval.")
@options.socket
@click.argument("flight", metavar="ID")
@click.option("--note", metavar="TEXT", help="Words that are added below its body.")
def command(socket: str | None, flight: str, note: str | None) -> None:
    """Let the flight (message) ID go to an agent that has approve = true."""
    answer = options.reach(socket).post(f"/flights/{quote(flight)}/approve", {"note": note})
    screen.out(answer["id"])
    screen.say(f"approved: it goes to {answer['to']}")
