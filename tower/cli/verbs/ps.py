"""`tower ps`: runs."""

from __future__ import annotations

from typing import Any, Final

import click

from tower.cli import agents, options, screen, words

SHOWN: Final = 100
"""Runs that are shown unless told otherwise: some screens full; a factory keeps thousands."""


@click.command("ps", short_help="Runs that are alive; with -a, ended ones too.")
@options.socket
@options.as_json
@options.quiet
@click.option("-a", "--all", "everything", is_flag=True, help="Also runs that have ended, newest first.")
@click.option("--agent", metavar="NAME", help="Only runs of this agent.")
@click.option("-n", "--limit", type=click.IntRange(1), default=SHOWN, show_default=True, help="At most so many runs.")
def command(socket: str | None, as_json: bool, quiet: bool, everything: bool, agent: str | None, limit: int) -> None:
    """List runs: one process of an agent each, started by a flight (message)."""
    api = options.reach(socket)
    answer = api.get("/runs", {"all": everything or None, "agent": agent, "limit": limit})
    runs = answer["runs"]
    if agent and not runs:
        agents.require(api, agent)
    if as_json:
        screen.document(answer)
    elif quiet:
        for run in runs:
            screen.out(run["id"])
    else:
        screen.table(("RUN", "AGENT", "STATE", "STARTED", "TOOK", "COST", "REASON"), map(_row, runs))
    if len(runs) == limit:
        screen.say(f"only the first {limit}; --limit shows more")


def _row(run: dict[str, Any]) -> tuple[str, ...]:
    return (
        screen.shown(run["id"]),
        run["agent"],
        run["outcome"] or run["state"],
        screen.brief(run["started_at"] or run["claimed_at"]),
        words.duration(run["seconds"]),
        words.money(run),
        run["reason"] or "",
    )
