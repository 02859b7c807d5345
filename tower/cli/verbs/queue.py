"""`tower queue`: what waits, and for what."""

from __future__ import annotations

from typing import Any, Final

import click

from tower.cli import agents, options, screen, words

SHOWN: Final = 100
"""Flights that are shown unless told otherwise."""


@click.command("queue", short_help="Flights (messages) that wait, and what each waits for.")
@options.socket
@options.as_json
@options.quiet
@click.option("--agent", metavar="NAME", help="Only flights to this agent.")
@click.option("-n", "--limit", type=click.IntRange(1), default=SHOWN, show_default=True, help="At most so many.")
def command(socket: str | None, as_json: bool, quiet: bool, agent: str | None, limit: int) -> None:
    """List the flights (messages) that have not started, in the order in which they would, each with its reason."""
    api = options.reach(socket)
    answer = api.get("/flights", {"waiting": True, "agent": agent, "limit": limit})
    flights = answer["flights"]
    if agent and not flights:
        agents.require(api, agent)
    if as_json:
        screen.document(answer)
    elif quiet:
        for flight in flights:
            screen.out(flight["id"])
    else:
        screen.table(("FLIGHT", "TO", "FROM", "STATE", "SINCE", "WAITS FOR"), map(_row, flights))
    if len(flights) == limit:
        screen.say(f"only the first {limit}; --limit shows more")


def _row(flight: dict[str, Any]) -> tuple[str, ...]:
    return (
        screen.shown(flight["id"]),
        flight["to"],
        flight["sender"]["name"],
        flight["state"],
        screen.brief(flight["created_at"]),
        words.why(flight, screen.brief),
    )
