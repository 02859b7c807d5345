"""`tower wait`: until an itinerary (chain) is over."""

from __future__ import annotations

import click

from tower.cli import named, options, screen, waiting


@click.command("wait", short_help="Wait until an itinerary (chain) is over.")
@options.socket
@options.as_json
@click.argument("id")
def command(socket: str | None, as_json: bool, id: str) -> int:
    """Wait for the itinerary (chain) that ID is or belongs to: an itinerary, a flight (message) or a run.

    Exit code 0 when every flight landed well, 1 when one did not, 3 when it waits for a person. A restart of the
    tower is waited out.
    """
    api = options.reach(socket)
    verdict, story = waiting.until_over(api, named.itinerary(api, id))
    if as_json:
        screen.document(story)
    waiting.say(verdict)
    return verdict.code
