"""Options that several verbs share, and how a command line finds the tower or the file that it means."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from tower.cli import screen
from tower.client import api, discover

if TYPE_CHECKING:
    from pathlib import Path

socket = click.option("--socket", metavar="PATH", help="Control socket of the tower to ask. [env: TOWER_SOCKET]")
as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
quiet = click.option("-q", "--quiet", is_flag=True, help="Print ids only.")
config = click.option(
    "--config",
    metavar="FILE",
    envvar="TOWER_CONFIG",
    show_envvar=True,
    default="layover.toml",
    show_default=True,
    help="Configuration file, or the folder that it is in.",
)
flags = click.option(
    "--flag", "flags", multiple=True, metavar="NAME=BOOL", help="A flag of the pipeline, for the whole chain."
)

choose = click.option(
    "--choose",
    "chosen",
    multiple=True,
    metavar="AGENT.KEY=VALUE",
    help="What this chain asks of AGENT in place of its own: model, effort, context (empty for none), or one of args.",
)


def reach(given: str | None) -> api.Api:
    """The tower that this command line means; `given` is the verb's own `--socket`."""
    given = given or click.get_current_context().find_root().params.get("socket")
    return api.Api(given, os.environ, here(), seconds=api.ANSWER_SECONDS, note=screen.say)


def here() -> str | None:
    """The folder that we stand in; None when it was removed."""
    with suppress(FileNotFoundError):
        return os.getcwd()  # noqa: PTH109 - see `tower.client.discover`
    return None


def state_dir() -> str | None:
    """The state folder of the tower whose configuration file is nearest; None without such a file."""
    config = discover.nearest_config(os.environ, here())
    return discover.state_dir(config, os.environ) if config else None


def config_path(given: str) -> Path:
    """The configuration file that `--config` names, absolute; whether it is there is for its reader to say."""
    from pathlib import Path

    path = Path(given).absolute()
    return path / "layover.toml" if path.is_dir() else path


def flag_values(given: tuple[str, ...]) -> dict[str, bool]:
    """What `--flag NAME`, `NAME=true` and `NAME=false` say. Raises `BadParameter` for any other value."""
    return dict(map(_flag, given))


def choices(given: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """What `--choose AGENT.KEY=VALUE` asks of each agent; `args` adds one. Raises `BadParameter` for other words."""
    from tower.core.choices import KEYS

    asked: dict[str, dict[str, Any]] = {}
    for text in given:
        place, is_given, value = text.partition("=")
        agent, _, key = place.rpartition(".")
        if not (agent and is_given and key in (*KEYS, "args")):
            raise click.BadParameter(
                f"{text!r} is not AGENT.KEY=VALUE with a KEY of {', '.join(KEYS)} or args", param_hint="'--choose'"
            )
        of_agent = asked.setdefault(agent, {})
        if key == "args":
            of_agent.setdefault(key, []).append(value)
        else:
            of_agent[key] = value or None
    return asked


def _flag(text: str) -> tuple[str, bool]:
    name, given, value = text.partition("=")
    if not given:
        return name, True
    try:
        return name, bool(click.BOOL.convert(value, None, None))
    except click.BadParameter:
        raise click.BadParameter(f"{value!r} is neither true nor false", param_hint=f"'--flag {name}'") from None
