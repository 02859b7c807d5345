"""Floor 6: the command line. Here is the entry, what every verb shares about failing, and the list of verbs.

A verb is one module in `verbs`: it parses, calls the client, and renders. Its module is imported when it is asked
for, so that no verb pays for the imports of another.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

import click

from tower import __version__
from tower.cli import exits, screen
from tower.core.errors import TowerError

SECTIONS: Final = {
    "The daemon": ("serve", "reload", "drain", "resume", "ground-stop", "agents", "worktrees", "runners"),
    "Before it": ("init", "validate", "explain", "graph", "prompt", "config"),
    "Work in": ("send", "wait", "cancel", "approve", "reject", "refuel", "release", "recover", "retry"),
    "Looking": ("summary", "status", "ps", "queue", "show", "diff", "logs", "costs", "help-requests", "pipelines"),
    "Around it": ("demo", "mcp"),
}
"""The verbs, as `tower --help` lists them. The module of one is its name with underscores."""


class Verbs(click.Group):
    """The group of verbs, each imported when it is named."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [verb for verbs in SECTIONS.values() for verb in verbs]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name == "help":
            return say_help
        if cmd_name not in self.list_commands(ctx):
            return None
        command: click.Command = import_module(f"tower.cli.verbs.{cmd_name.replace('-', '_')}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            import difflib

            near = difflib.get_close_matches(args[0], self.list_commands(ctx), n=1)
            meant = f" Did you mean {near[0]}?" if near else ""
            raise click.UsageError(error.message + meant, ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for section, verbs in SECTIONS.items():
            commands = [command for verb in verbs if (command := self.get_command(ctx, verb))]
            with formatter.section(section):
                formatter.write_dl([(command.name or "", command.get_short_help_str(90)) for command in commands])


@click.command(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--socket", metavar="PATH", help="Control socket of the tower to ask (any verb takes it as well).")
@click.version_option(__version__, "-V", "--version", message="tower %(version)s")
def tower(socket: str | None) -> None:
    """Tower, a dispatcher daemon for headless coding agents.

    An agent is started by a flight (message); all that one flight causes is its itinerary (chain).
    """


@click.command("help")
@click.argument("verbs", metavar="[VERB]", nargs=-1)
@click.pass_context
def say_help(ctx: click.Context, verbs: tuple[str, ...]) -> None:
    """Say what `tower VERB --help` says."""
    root = ctx.find_root()
    root.command.main([*verbs, "--help"], prog_name="tower", standalone_mode=False)


def main() -> int:
    """The `tower` program: run what the command line says and return the exit code."""
    # What is imported by now lives until the end; without this, each exit walks all of it once more.
    gc.freeze()
    return run(sys.argv[1:])


def run(args: Sequence[str]) -> int:
    """Carry out one command line; every failure is words on standard error and an exit code."""
    _mend_streams()
    try:
        result: Any = tower.main(args, prog_name="tower", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return exits.INTERRUPTED
    except TowerError as error:
        screen.say_error(error)
        return exits.of(error)
    except screen.ReaderGoneError:
        return exits.DONE
    return result if isinstance(result, int) else exits.DONE


def _mend_streams() -> None:
    """A stream that was closed for us (`>&-`) swallows; one that cannot encode a character shows its escape."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115, PTH123 - lives as long as the process
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
