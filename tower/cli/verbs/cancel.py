"""`tower cancel`: end a flight, a run or a whole chain."""

from __future__ import annotations

import click

from tower.cli import named, options, screen


@click.command("cancel", short_help="End a flight, a run, or a whole itinerary (chain).")
@options.socket
@click.argument("id")
def command(socket: str | None, id: str) -> None:
    """Cancel what ID names: a flight (message), a run, or an itinerary (chain) with all that belongs to it.

    What has not started never will; a run that is alive is told to end, then made to.
    """
    api = options.reach(socket)
    kind, known = named.find(api, id)
    answer = api.delete(f"/flights/{known}") if kind == "flight" else api.post(f"/{_PLURAL[kind]}/{known}/cancel")
    screen.out(known)
    screen.say(f"{kind} {known} is {'cancelled' if answer['state'] == 'cancelled' else 'being ended'}")


_PLURAL = {"run": "runs", "itinerary": "itineraries"}
