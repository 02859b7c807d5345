"""`tower recover`: give interrupted work another run."""

from __future__ import annotations

import click

from tower.cli import named, options, screen


@click.command("recover", short_help="Start interrupted work again.")
@options.socket
@click.argument("run")
@click.option("--note", metavar="TEXT", help="Words for the new run, quoted in its handover note.")
@click.option("--force", is_flag=True, help="One more attempt although its recovery is used up or not allowed.")
def command(socket: str | None, run: str, note: str | None, force: bool) -> None:
    """Queue the flights (messages) of an interrupted RUN again, with a handover note about what it left."""
    api = options.reach(socket)
    flight = api.post(f"/runs/{named.run(api, run)}/recover", {"note": note, "force": force})
    screen.out(flight["id"])
    screen.say(f"flight {flight['id']} to {flight['to']} is {flight['state']}, attempt {flight['attempt']}")
