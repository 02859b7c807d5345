"""`tower release`: open a join by hand."""

from __future__ import annotations

import click

from tower.cli import named, options, screen


@click.command("release", short_help="Wake an agent with what its join has so far.")
@options.socket
@click.argument("chain")
@click.argument("agent")
def command(socket: str | None, chain: str, agent: str) -> None:
    """Wake AGENT with what its join (rendezvous) has in an itinerary (chain), though somebody is missing.

    Also when the join was given up. CHAIN is its id, or that of anything in it.
    """
    api = options.reach(socket)
    known = named.itinerary(api, chain)
    api.post(f"/itineraries/{known}/release", {"agent": agent})
    screen.out(known)
    screen.say(f"{agent} wakes with what was there")
