"""`tower drain`: start nothing more, and wait until nothing runs."""

from __future__ import annotations

import click

from tower.cli import exits, options, screen, words
from tower.client import follow
from tower.client.api import Api


@click.command("drain", short_help="Start nothing more, and wait for what runs.")
@options.socket
@click.option("--no-wait", is_flag=True, help="Return at once.")
def command(socket: str | None, no_wait: bool) -> int:
    """Stop dispatching and wait until every run has ended. New flights (messages) are taken and kept.

    `tower resume` dispatches again; stopping the tower afterwards interrupts nobody.
    """
    api = options.reach(socket)
    api.post("/drain")
    if not no_wait:
        while runs := api.get("/runs")["runs"]:
            screen.say(f"draining: {words.count(len(runs), 'run')} alive ({', '.join(run['agent'] for run in runs)})")
            _wait_for(api, runs[0]["id"], runs[0]["itinerary"])
    screen.say("draining: nothing starts" if no_wait else "drained: nothing runs, and nothing starts")
    return exits.DONE


def _wait_for(api: Api, run: str, itinerary: str) -> None:
    for story in follow.itinerary(api, itinerary, screen.say):
        if all(known["state"] == "ended" for known in story["runs"] if known["id"] == run):
            return
