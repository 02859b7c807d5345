"""`tower reload`: look at the configuration now."""

from __future__ import annotations

import click

from tower.cli import exits, findings, options, screen


@click.command("reload", short_help="Read the configuration now, and say what came of it.")
@options.socket
@options.as_json
def command(socket: str | None, as_json: bool) -> int:
    """Make the tower look at its configuration file at once (it watches it anyway) and wait for the result.

    A file with errors changes nothing; they are listed, and the exit code is 78.
    """
    answer = options.reach(socket).post("/reload")
    errors = [finding for finding in answer["problems"] if finding["severity"] == "error"]
    if as_json:
        screen.document(answer)
    else:
        for finding in answer["problems"]:
            screen.say(findings.full(finding))
        for key in answer["needs_restart"]:
            screen.say(f"{key} has changed: it takes effect when the tower is restarted")
        what = "not taken over, still" if errors else "now" if answer["changed"] else "unchanged,"
        screen.say(f"{what} generation {answer['generation']}")
    return exits.CONFIGURATION if errors else exits.DONE
