"""`tower explain`: what a factory is, and what one agent is, each value with where it came from."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from tower.cli import agents, factories, options, safe, screen

if TYPE_CHECKING:
    from tower.core.factory import Factory

LONGEST: Final = 160
"""Characters of a value that are shown; `tower prompt` shows whole texts, and --json whole values."""


@click.command("explain", short_help="What a factory is, or one agent and what is enforced.")
@options.config
@click.option("-p", "--pipeline", metavar="NAME", help="Explain AGENT as the chains of this pipeline have it.")
@options.as_json
@click.argument("agent", required=False)
def command(config: str, pipeline: str | None, as_json: bool, agent: str | None) -> None:
    """Say in words what the factory of a configuration file is.

    With AGENT, list each value of that agent with where it came from, what is enforced and what is not, and which
    variables are set. No tower is needed.
    """
    if pipeline is not None and agent is None:
        raise click.UsageError("--pipeline is for one AGENT; `tower graph --pipeline` draws what a pipeline leads to.")
    factory = factories.good(options.config_path(config))
    if pipeline is not None and pipeline not in factory.pipelines:
        raise agents.unknown(pipeline, factory.pipelines, "pipeline")
    if agent is not None and agent not in factory.agents:
        raise agents.unknown(agent, factory.agents)
    if agent is not None:
        (explained,) = _explained(factory, [agent], pipeline)
        screen.document(explained) if as_json else _show(explained)
        return
    every = list(_explained(factory, factory.agents, None))
    if as_json:
        screen.document({"path": factory.path, "agents": every})
        return
    from tower.cli.prose import paragraphs  # here, since `tower --help` imports every verb

    screen.out("\n\n".join(safe.line(text) for text in paragraphs(factory, every)))


def _explained(factory: Factory, names: Iterable[str], pipeline: str | None) -> Iterator[dict[str, Any]]:
    """A document for each agent."""
    from tower.config.explained import explained
    from tower.config.variables import is_set
    from tower.system.sandbox import abilities

    state = factory.settings.state_dir
    # An overlay is tried on the disk where runs will have theirs, if it is there yet.
    scratch = state if Path(state).is_dir() else tempfile.gettempdir()
    can = abilities(os.environ.get("PATH", os.defpath), scratch)
    for name in names:
        yield explained(factory, name, partial(is_set, environ=os.environ), can, pipeline=pipeline)


def _show(explained: dict[str, Any]) -> None:
    values = explained["values"]
    screen.out(safe.line(f"{explained['name']}: {values['description']['value'] or 'no description'}"))
    screen.out("")
    screen.table(("KEY", "FROM", "VALUE"), ((key, it["origin"], _text(key, it["value"])) for key, it in values.items()))
    for title, said in (("Enforced:", explained["enforced"]), ("Not enforced:", explained["advisory"])):
        screen.out(f"\n{title}")
        for words in said:
            screen.out(safe.line(f"- {words}"))
    if explained["variables"]:
        screen.out("\nForwarded variables:")
        screen.table(
            ("NAME", "NOW", "DECLARED BY"),
            ((it["name"], "set" if it["is_set"] else "missing", it["declared_by"]) for it in explained["variables"]),
        )


def _text(key: str, value: Any) -> str:
    text = _whole(key, value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _whole(key: str, value: Any) -> str:
    if value is None:
        return "the runner's own" if key == "model" else "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if key == "prompt":
        files = ", ".join(value["files"]) or "the configuration"
        flags = f", with the flags {', '.join(value['flags'])}" if value["flags"] else ""
        return f"{value['bytes']} bytes from {files}{flags}"
    if isinstance(value, dict):
        return ", ".join(f"{name}={one}" for name, one in value.items()) or "none"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return f"{value:g}" if isinstance(value, float) else " ".join(str(value).split())
