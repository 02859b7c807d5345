"""`tower serve`: the daemon, in the foreground."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import click

from tower.cli import exits, factories, options, screen, words
from tower.core.errors import InvalidError, RefusedError, TowerError

STATE_CODES: Final = frozenset({"store", "newer-state"})
"""Codes of a state folder whose database cannot be used."""


@click.command("serve", short_help="Run the daemon, in the foreground.")
@options.config
@click.option("--runner", metavar="SPEC", help="One runner for every agent: rehearse a factory without its programs.")
def command(config: str, runner: str | None) -> int:
    """Run the tower of a configuration file until it is told to stop (SIGTERM, Ctrl-C).

    `systemd/tower.service` runs this as a service.
    """
    from tower import daemon

    path = options.config_path(config)
    if sys.stderr.isatty():
        _greet(path)
    try:
        daemon.serve(path, runner=runner)
    except daemon.ConfigurationError as error:
        for problem in error.problems:
            screen.say(str(problem))
        raise
    except TowerError as error:
        if not _is_final(error):
            raise
        screen.say_error(error)
        return exits.CONFIGURATION
    return exits.DONE


def _is_final(error: TowerError) -> bool:
    """Whether starting again without a change would end in the same way: a service manager is told not to."""
    return isinstance(error, InvalidError | RefusedError) or error.code in STATE_CODES


def _greet(path: Path) -> None:
    """One line for the person who started it, above the log. A file with errors is left to the daemon."""
    if factory := factories.quietly(path):
        agents = words.count(len(factory.agents), "agent")
        screen.say(f"serving {path} ({agents}) at {factory.settings.socket}; Ctrl-C stops it")
