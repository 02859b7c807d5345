"""`tower agents`: what a person says of one agent."""

from __future__ import annotations

import click

from tower.cli import options, screen


@click.group("agents", short_help="Pause an agent, or replace the process of a resident.")
def command() -> None:
    """Say what is to become of one agent, until something else is said."""


@command.command("restart")
@options.socket
@click.argument("name")
def restart(socket: str | None, name: str) -> None:
    """Replace the process of a resident after its turn, and forget how often it failed (it is quarantined no more)."""
    options.reach(socket).post(f"/agents/{name}/restart")
    screen.say(f"{name} gets a new process")


@command.command("pause")
@options.socket
@click.argument("name")
def pause(socket: str | None, name: str) -> None:
    """Start nothing for an agent: its flights (messages) wait, and what runs goes on. It survives restarts."""
    options.reach(socket).post(f"/agents/{name}/pause")
    screen.say(f"{name} is paused: nothing starts for it")


@command.command("resume")
@options.socket
@click.argument("name")
def resume(socket: str | None, name: str) -> None:
    """Let an agent's flights (messages) start again."""
    options.reach(socket).post(f"/agents/{name}/resume")
    screen.say(f"{name} goes on")
