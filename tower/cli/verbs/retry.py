"""`tower retry`: do a flight again that did not succeed."""

from __future__ import annotations

import click

from tower.cli import named, options, screen
from tower.core.errors import InvalidError


@click.command("retry", short_help="Do a flight (message) again that did not succeed.")
@options.socket
@click.argument("id")
@click.option("--note", metavar="TEXT", help="Words for the new run, quoted in its handover note.")
def command(socket: str | None, id: str, note: str | None) -> None:
    """Queue a flight (message) again that is over and did not succeed; ID names it, or a run of it.

    The new run is told what the last one left. What succeeded is sent anew with `tower send`.
    """
    api = options.reach(socket)
    kind, known = named.find(api, id)
    if kind == "itinerary":
        raise InvalidError(
            "not-a-flight", f"cannot retry {known}: it is a chain", f"`tower show {known}` lists its flights"
        )
    flight_id = known if kind == "flight" else api.get(f"/runs/{known}")["flights"][0]
    flight = api.post(f"/flights/{flight_id}/retry", {"note": note})
    screen.out(flight["id"])
    screen.say(f"flight {flight['id']} to {flight['to']} is {flight['state']}, attempt {flight['attempt']}")
