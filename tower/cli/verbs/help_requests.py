"""`tower help-requests`: what runs want a person to know or to do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import click

from tower.cli import agents, options, screen, words
from tower.client.api import Api

SHOWN: Final = 100
"""Requests that are shown unless told otherwise."""


@click.group("help-requests", short_help="What runs ask of a person.", invoke_without_command=True)
@options.socket
@options.as_json
@options.quiet
@click.option("-a", "--all", "every", is_flag=True, help="Those that are resolved too.")
@click.option("--agent", metavar="NAME", help="Only requests of this agent.")
@click.option("-n", "--limit", type=click.IntRange(1), default=SHOWN, show_default=True, help="At most so many.")
@click.pass_context
def command(
    context: click.Context,
    socket: str | None,
    as_json: bool,
    quiet: bool,
    every: bool,
    agent: str | None,
    limit: int,
) -> None:
    """List requests for help of runs, newest first; without --all those that nobody has resolved.

    An itinerary (chain) in which a run ended on a fatal request waits until it is resolved.
    """
    if context.invoked_subcommand is not None:
        return
    api = options.reach(socket)
    answer = api.get("/help", {"all": every, "agent": agent, "limit": limit})
    if agent and not answer["help"]:
        agents.require(api, agent)
    if as_json:
        screen.document(answer)
    elif quiet:
        for request in answer["help"]:
            screen.out(request["id"])
    else:
        screen.table(("REQUEST", "AGENT", "BLOCKER", "STATE", "SINCE", "SUMMARY"), map(_row, answer["help"]))
    if len(answer["help"]) == limit:
        screen.say(f"only the newest {limit}; --limit shows more")


@command.command("show")
@options.socket
@options.as_json
@click.argument("id")
def show(socket: str | None, as_json: bool, id: str) -> None:
    """Show one request with all its words."""
    show_one(options.reach(socket), id, as_json=as_json)


@command.command("resolve")
@options.socket
@click.argument("id")
@click.option("--note", metavar="TEXT", help="What was done, for the record.")
def resolve(socket: str | None, id: str, note: str | None) -> None:
    """Close a request: somebody has seen to it. Nothing is started by that."""
    request = options.reach(socket).post(f"/help/{id}/resolve", {"note": note})
    screen.say(f"{request['id']} of {request['agent']} is resolved")


def show_one(api: Api, identity: str, *, as_json: bool) -> None:
    """Print one request."""
    request = api.get(f"/help/{identity}")
    if as_json:
        screen.document(request)
        return
    screen.fields(_fields(request))
    if request["detail"]:
        screen.out("")
        screen.whole(request["detail"].encode(errors="replace"))


def _row(request: dict[str, Any]) -> tuple[str, ...]:
    return (
        screen.shown(request["id"]),
        request["agent"],
        request["blocker"] + (" (fatal)" if request["fatal"] else ""),
        request["state"],
        screen.brief(request["at"]),
        request["summary"],
    )


def _fields(request: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "request", request["id"]
    yield "summary", request["summary"]
    yield "agent", request["agent"]
    yield "run", request["run"]
    yield "itinerary", request["itinerary"]
    yield "blocker", request["blocker"]
    yield "fatal", "yes, its itinerary waits" if request["fatal"] and request["state"] == "open" else words.NOTHING
    yield "since", screen.when(request["at"])
    yield "state", request["state"]
    if request["resolved_by"]:
        yield "resolved", f"by {request['resolved_by']}, {screen.when(request['resolved_at'])}"
    if request["note"]:
        yield "note", request["note"]
