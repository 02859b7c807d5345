"""`tower init`: a factory that runs at once."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from tower.cli import scaffold, screen
from tower.core.errors import ConflictError
from tower.system.git import git_version

WORKSPACE = "workspace"


@click.command("init", short_help="Write a factory that runs at once.")
@click.argument("name", required=False)
def command(name: str | None) -> None:
    """Write a commented configuration file, prompts and two scripts as agents into the folder NAME (made if it is not
    there), or into this one.

    Agents work in the repository of that folder; where it has none, one is made in workspace/. Asks nothing and
    overwrites nothing.
    """
    git_version()
    folder = (Path.cwd() / (name or "")).absolute()
    own = (folder / ".git").exists()
    new = not own and not (folder / WORKSPACE / ".git").exists()
    if new and (folder / WORKSPACE).exists():
        raise ConflictError(
            "no-repository",
            f"cannot let agents work in {folder / WORKSPACE}: it is there and is no git repository",
            "`git init` it and commit what it has, or give another folder",
        )
    files = [file for file in scaffold.files("init") if new or not file.startswith(f"{WORKSPACE}/")]
    values = {
        "WORK_DIR": scaffold.toml_text("." if own else WORKSPACE),
        "WRITER": scaffold.toml_text(folder / "agents" / "writer.sh"),
        "REVIEWER": scaffold.toml_text(folder / "agents" / "reviewer.sh"),
    }
    scaffold.write("init", files, folder, values)
    if new:
        scaffold.make_repository(folder / WORKSPACE, "Start of the notes")
    for file in files:
        screen.out(str(folder / file))
    enter = f"cd {shlex.quote(name)} && " if name else ""
    screen.say(f'now: {enter}tower serve\nand elsewhere: {enter}tower send writer "Hello" --wait')
    if own:
        screen.say("the writer works in this repository and could edit layover.toml: review what it changes")
