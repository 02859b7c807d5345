"""`tower pipelines`: the named ways in."""

from __future__ import annotations

from typing import Any

import click

from tower.cli import options, screen


@click.command("pipelines", short_help="Pipelines (named ways in) and the flags that each declares.")
@options.socket
@options.as_json
@click.option("-q", "--quiet", is_flag=True, help="Print names only.")
def command(socket: str | None, as_json: bool, quiet: bool) -> None:
    """List pipelines: named ways in, each with its entry agent and its flags. `tower send -p NAME` sends into one."""
    answer = options.reach(socket).get("/pipelines")
    if as_json:
        screen.document(answer)
    elif quiet:
        for pipeline in answer["pipelines"]:
            screen.out(pipeline["name"])
    else:
        screen.table(("PIPELINE", "ENTRY", "TRIGGER", "FLAGS", "DESCRIPTION"), map(_row, answer["pipelines"]))


def _row(pipeline: dict[str, Any]) -> tuple[str, ...]:
    flags = (f"{name}={str(flag['default']).lower()}" for name, flag in pipeline["flags"].items())
    return (
        pipeline["name"],
        pipeline["entry"],
        pipeline["trigger"],
        " ".join(flags) or "-",
        pipeline["description"] or "",
    )
