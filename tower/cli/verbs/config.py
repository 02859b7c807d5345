"""`tower config`: what the configuration comes to, and what a reload would change."""

from __future__ import annotations

from typing import Any, Final

import click

from tower.cli import agents, comparing, exits, factories, findings, options, safe, screen, words

PROCESSES: Final = {
    "kept": "its process goes on",
    "replaced": "its process is replaced after its turn",
    "started": "its process is started",
    "ended": "its process ends after its turn",
}
"""What becomes of a resident's process."""


@click.group("config", short_help="What the file comes to, and what a reload would change.")
def command() -> None:
    """Look at a configuration: what it comes to, and what would change if it was loaded now."""


@command.command("show")
@options.config
@click.argument("agent", required=False)
@click.option("--resolved", is_flag=True, expose_value=False, help="With everything inherited; it always is.")
@options.as_json
def show(config: str, agent: str | None, as_json: bool) -> None:
    """Print what a configuration file comes to, as TOML: every value in the units of the file, and whether the file, a
    variable, `[defaults]` or nobody said it. With AGENT, that agent alone. No tower is needed.
    """
    factory = factories.good(options.config_path(config))
    if agent is not None and agent not in factory.agents:
        raise agents.unknown(agent, factory.agents)
    # Here, since `tower --help` imports every verb.
    from tower.cli import toml
    from tower.config import written

    shown = written.document(factory) if agent is None else {"agents": {agent: written.agent(factory.agents[agent])}}
    if as_json:
        screen.document(shown)
    else:
        screen.whole(f"{toml.text(shown)}\n".encode())


@command.command("diff")
@options.socket
@click.option("--from", "old", metavar="FILE", help="Compare with this configuration file; no tower is asked.")
@options.config
@options.as_json
def diff(socket: str | None, old: str | None, config: str, as_json: bool) -> int:
    """Say what a reload would change: each value that differs between what the tower runs and the file that it follows,
    and what becomes of each agent. Nothing is changed. A file with errors is exit code 78; a reload would refuse it.
    """
    if old is None:
        answer = options.reach(socket).get("/config/diff")
    else:
        answer = comparing.compared(options.config_path(old), options.config_path(config))
    errors = any(finding["severity"] == "error" for finding in answer["problems"])
    if as_json:
        screen.document(answer)
    else:
        _print(answer, errors=errors)
    return exits.CONFIGURATION if errors else exits.DONE


def _print(answer: dict[str, Any], *, errors: bool) -> None:
    for finding in answer["problems"]:
        screen.say(findings.full(finding))
    for change in answer["changes"]:
        screen.out(safe.line(change))
    touched = [agent for agent in answer["agents"] if agent["change"] != "untouched"]
    if touched:
        screen.out("")
        screen.table(("AGENT", "CHANGE", "WHAT FOLLOWS"), [(it["name"], it["change"], _follows(it)) for it in touched])
    for key in answer["needs_restart"]:
        screen.say(f"{key} has changed: it takes effect when the tower is restarted")
    if errors:
        screen.say("a reload would refuse this file")
    else:
        same = len(answer["agents"]) - len(touched)
        screen.say(f"{words.count(len(answer['changes']), 'change')}; {words.count(same, 'agent')} untouched")


def _follows(agent: dict[str, Any]) -> str:
    """What becomes of the work of an agent that is not untouched."""
    process = agent["process"]
    if agent["change"] == "removed":
        held = f"; {words.count(agent['held'], 'flight')} held until it is back" if agent["held"] else ""
        return f"what runs goes on, nothing starts{held}" if process is None else f"{PROCESSES[process]}{held}"
    if process is not None:
        return PROCESSES[process]
    return "nothing runs yet" if agent["change"] == "added" else "its next runs; what runs goes on as it began"
