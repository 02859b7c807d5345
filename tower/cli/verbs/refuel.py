"""`tower refuel`: more money for a chain."""

from __future__ import annotations

import click

from tower.cli import named, options, screen


@click.command("refuel", short_help="Let an itinerary (chain) spend more.")
@options.socket
@click.argument("chain")
@click.argument("usd")
def command(socket: str | None, chain: str, usd: str) -> None:
    """Add USD dollars to the Fuel (money budget) of an itinerary (chain), and let go on what was held for it.

    CHAIN is its id, or that of anything in it.
    """
    api = options.reach(socket)
    known = named.itinerary(api, chain)
    answer = api.post(f"/itineraries/{known}/refuel", {"usd": usd})
    fuel = answer["fuel"]
    screen.out(known)
    screen.say(f"it may spend ${fuel['limit_usd']:.2f} now, and has spent ${fuel['spent_usd']:.2f}")
