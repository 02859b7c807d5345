"""`tower serve`: the daemon, in the foreground."""

from __future__ import annotations

import click

from tower.cli import exits, options, screen


@click.command("serve", short_help="Run the daemon, in the foreground.")
@options.config
@click.option("--runner", metavar="SPEC", help="One runner for every agent: rehearse a factory without its programs.")
def command(config: str, runner: str | None) -> int:
    """Run the tower of a configuration file until it is told to stop (SIGTERM, Ctrl-C).

    `systemd/tower.service` runs this as a service.
    """
    from tower import daemon

    try:
        daemon.serve(options.config_path(config), runner=runner)
    except daemon.ConfigurationError as error:
        for problem in error.problems:
            screen.say(str(problem))
        raise
    return exits.DONE
