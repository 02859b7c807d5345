"""`tower summary`: the morning in one screen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import click

from tower.cli import options, screen, times, words
from tower.cli.verbs.costs import summed

SINCE: Final = "12h"
"""A night, for who asks in the morning."""

Row = tuple[str, ...]


@click.command("summary", short_help="What happened over night, in one screen.")
@options.socket
@options.as_json
@click.option("--since", metavar="WHEN", default=SINCE, show_default=True, help="From then on: 22:00, 8h, 2031-05-06.")
def command(socket: str | None, as_json: bool, since: str) -> None:
    """Show how runs ended since then, what they cost and changed, and what waits for you."""
    api = options.reach(socket)
    summary = api.get("/summary", {"since": times.past(since, screen.now())})
    if as_json:
        screen.document(summary)
        return
    screen.fields(_facts(summary))
    for title, columns, rows in _tables(summary):
        if not rows:
            continue
        if screen.on_terminal():
            screen.out("")
            screen.out(title)
            screen.table(columns, rows)
        else:
            screen.table(columns, [(title, *row) for row in rows])


def _facts(summary: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "since", screen.when(summary["since"])
    ended = summary["outcomes"]
    yield "landed", ", ".join(f"{count} {outcome}" for outcome, count in ended.items()) or "nothing"
    yield "alive", words.count(summary["alive"], "run")
    yield from summed(summary["costs"])
    if summary["ground_stop"]:
        yield "ground stop", summary["ground_stop"]
    if summary["help"]:
        yield "help", f"{words.count(summary['help'], 'request')} for help open; `tower help-requests` lists them"


def _tables(summary: dict[str, Any]) -> Iterator[tuple[str, Row, list[Row]]]:
    ended = ("RUN", "AGENT", "OUTCOME", "ENDED", "REASON")
    yield "not well", ended, [_run(run) for run in summary["troubles"]]
    yield "changed", ("RUN", "AGENT", "OUTCOME", "ENDED", "SEE"), [_change(run) for run in summary["changed"]]
    yield "waits for you", ("FLIGHT", "TO", "HELD", "WHY"), [_hold(flight) for flight in summary["waiting"]]
    yield "runner", ("RUNNER", "STATE", "UNTIL", "REASON"), [screen.wall(one) for one in summary["circuits"]]


def _run(run: dict[str, Any]) -> Row:
    ended = screen.brief(run["ended_at"])
    return screen.shown(run["id"]), run["agent"], run["outcome"] or "", ended, run["reason"] or ""


def _change(run: dict[str, Any]) -> Row:
    return (*_run(run)[:4], f"tower diff {screen.shown(run['id'])}")


def _hold(flight: dict[str, Any]) -> Row:
    return screen.shown(flight["id"]), flight["to"], flight["held_reason"] or "", words.why(flight, screen.brief)
