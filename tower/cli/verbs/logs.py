"""`tower logs`: what a run's program wrote."""

from __future__ import annotations

import codecs

import click

from tower.cli import named, options, screen
from tower.client import follow


@click.command("logs", short_help="What a run's program wrote.")
@options.socket
@click.argument("run")
@click.option(
    "-f",
    "--follow",
    "following",
    is_flag=True,
    help="Go on until the run has ended; wait for one that has not started.",
)
@click.option("--stderr", is_flag=True, help="Its standard error instead of its standard output.")
@click.option("--tail", type=click.IntRange(0), metavar="BYTES", help="Begin so many bytes before the end.")
def command(socket: str | None, run: str, following: bool, stderr: bool, tail: int | None) -> None:
    """Print the output of a RUN; a flight (message) stands for its latest one.

    On a pipe every byte is passed on as it is. On a terminal, what could act on it is shown as an escape.
    """
    api = options.reach(socket)
    pieces = follow.log(
        api,
        named.run(api, run, wait=following),
        screen.say,
        stream="stderr" if stderr else "stdout",
        offset=-tail if tail else 0,
        follow=following,
    )
    # A character may lie across two pieces.
    text = codecs.getincrementaldecoder("utf-8")(errors="replace")
    for piece in pieces:
        if piece.dropped:
            screen.say(f"[{piece.dropped} bytes were cut out here to keep the log within max_log_mb]")
        screen.raw(text.decode(piece.data).encode() if screen.on_terminal() else piece.data)
