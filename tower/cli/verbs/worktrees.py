"""`tower worktrees`: the work trees of itineraries, why they stay, and their removal."""

from __future__ import annotations

from typing import Any

import click

from tower.cli import options, screen


@click.group(
    "worktrees", short_help="Work trees of itineraries (chains): list, remove, rescue.", invoke_without_command=True
)
@options.socket
@options.as_json
@options.quiet
@click.pass_context
def command(context: click.Context, socket: str | None, as_json: bool, quiet: bool) -> None:
    """List the work trees of itineraries (chains) whose pipeline gives each its own, oldest first."""
    if context.invoked_subcommand is not None:
        return
    answer = options.reach(socket).get("/worktrees")
    if as_json:
        screen.document(answer)
    elif quiet:
        for one in answer["worktrees"]:
            screen.out(one["itinerary"])
    else:
        screen.table(("ITINERARY", "SINCE", "STATE", "PATH", "KEPT BECAUSE"), map(_row, answer["worktrees"]))


@command.command("remove")
@options.socket
@click.argument("itinerary", metavar="CHAIN")
@click.option("--force", is_flag=True, help="Rescue what is not committed, and remove it all the same.")
def remove(socket: str | None, itinerary: str, force: bool) -> None:
    """Remove the work trees of CHAIN, when nothing can be lost by it."""
    answer = options.reach(socket).delete(f"/worktrees/{itinerary}{'?force=true' if force else ''}")
    for one in answer["worktrees"]:
        screen.say(f"{one['path']} is removed")


@command.command("rescue")
@options.socket
@click.argument("itinerary", metavar="CHAIN")
def rescue(socket: str | None, itinerary: str) -> None:
    """Keep what is not committed in the work trees of CHAIN under refs/tower/rescue/CHAIN."""
    answer = options.reach(socket).post(f"/worktrees/{itinerary}/rescue", {})
    for one in answer["rescued"]:
        screen.say(f"{one['path']}: `git restore --source={one['ref']} --worktree :/` brings it back")
    if not answer["rescued"]:
        screen.say("nothing is uncommitted there")


def _row(one: dict[str, Any]) -> tuple[str, ...]:
    return (
        screen.shown(one["itinerary"]),
        screen.brief(one["made_at"]),
        "in use" if one["in_use"] else "idle",
        one["path"],
        one["kept"] or "",
    )
