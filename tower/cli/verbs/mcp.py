"""`tower mcp`: the tower's tools over standard input and output."""

from __future__ import annotations

import os
import sys

import click

from tower.cli import exits, options, screen
from tower.client import forward


@click.command("mcp", short_help="The tower's tools for an agent that speaks MCP over stdio.")
@options.socket
def command(socket: str | None) -> int:
    """Serve the tower's tools over standard input and output (MCP), for the run whose LAYOVER_RUN_TOKEN is set.

    A program that can speak MCP over HTTP asks LAYOVER_MCP_URL instead.
    """
    if not os.environ.get("LAYOVER_RUN_TOKEN"):
        raise click.UsageError("LAYOVER_RUN_TOKEN is not set: this is for programs that a tower has started.")
    for answer in forward.answers(options.reach(socket), sys.stdin.buffer):
        screen.raw(answer + b"\n")
    return exits.DONE
