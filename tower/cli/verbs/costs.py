"""`tower costs`: what runs cost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from tower.cli import options, screen, times, words

Pairs = Iterator[tuple[str, str]]


@click.command("costs", short_help="What runs cost, by agent, model, pipeline and day.")
@options.socket
@options.as_json
@click.option("--by", type=click.Choice(["agent", "model", "pipeline", "day"]), help="This table alone.")
@click.option("--since", metavar="WHEN", help="Only runs that ended since: 22:00, 8h, 7d, 2031-05-06.")
@click.option("--until", metavar="WHEN", help="Only runs that ended before.")
def command(socket: str | None, as_json: bool, by: str | None, since: str | None, until: str | None) -> None:
    """Show what runs cost that have ended, with where the figures come from.

    A sum in which a run is unknown ends in a plus; what Fuel and Reserve were charged has something for those as well.
    """
    now = screen.now()
    span = {"since": since and times.past(since, now), "until": until and times.past(until, now)}
    answer = options.reach(socket).get("/costs", span)
    if as_json:
        screen.document(answer)
        return
    if by is None:
        screen.fields(summed(answer))
    for name, rows in answer["by"].items():
        if by in (None, name) and rows:
            if by is None and screen.on_terminal():
                screen.out("")
            shown = [_row(row) for row in rows]
            if by is None and not screen.on_terminal():
                shown = [(name, *row) for row in shown]
            screen.table((name.upper(), "RUNS", "COST", "SOURCE", "CHARGED"), shown)


def summed(answer: dict[str, Any]) -> Pairs:
    """The total and the Reserve."""
    total, reserve = answer["total"], answer["reserve"]
    unknown = f", {total['unreported']} of them not reported" if total["unreported"] else ""
    yield "runs", f"{total['runs']}{unknown}"
    yield "cost", total["cost"] + (f" ({total['source']})" if total["source"] else "")
    yield "charged", words.usd(total["charged_usd"])
    yield "reserve", words.reserved(reserve)


def _row(row: dict[str, Any]) -> tuple[str, ...]:
    unknown = f" ({row['unreported']} not reported)" if row["unreported"] else ""
    return (
        row["name"] or words.NOTHING,
        f"{row['runs']}{unknown}",
        row["cost"],
        row["source"] or words.NOTHING,
        words.usd(row["charged_usd"]),
    )
