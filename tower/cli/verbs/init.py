"""`tower init`: a factory that runs at once."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Final

import click

from tower.cli import scaffold, screen
from tower.client.wire import SUN_PATH_BYTES
from tower.core.errors import ConflictError
from tower.system.git import git_version

WORKSPACE: Final = "workspace"
SOCKET: Final = ".layover/tower.sock"


@click.command("init", short_help="Write a factory that runs at once.")
@click.argument("name", required=False)
def command(name: str | None) -> None:
    """Write a commented configuration file, prompts and two scripts as agents into the folder NAME (made if it is not
    there), or into this one.

    Agents work in the repository that the folder is in; where it is in none, one is made in workspace/. Asks nothing
    and overwrites nothing.
    """
    git_version()
    folder = (Path.cwd() / (name or "")).absolute()
    made = (folder / WORKSPACE / ".git").exists() and not (folder / ".git").exists()
    around = None if made else _repository_around(folder)
    new = around is None and not made
    if new and (folder / WORKSPACE).exists():
        raise ConflictError(
            "no-repository",
            f"cannot let agents work in {folder / WORKSPACE}: it is there and is no git repository",
            "`git init` it and commit what it has, or give another folder",
        )
    files = [file for file in scaffold.files("init") if new or not file.startswith(f"{WORKSPACE}/")]
    values = {
        "WORK_DIR": scaffold.toml_text("." if around else WORKSPACE),
    }
    scaffold.write("init", files, folder, values)
    if new:
        scaffold.make_repository(folder / WORKSPACE, "Start of the notes")
    for file in files:
        screen.out(str(folder / file))
    enter = f"cd {shlex.quote(name)} && " if name else ""
    screen.say(f'now: {enter}tower serve\nand elsewhere: {enter}tower send writer "Hello" --wait')
    if around:
        which = "this repository" if around == folder.resolve() else f"this folder of the repository {around}"
        screen.say(f"the writer works in {which} and could edit layover.toml: review what it changes")
    _warn_of_long_path(folder)


def _repository_around(folder: Path) -> Path | None:
    """The top of the git repository that a folder is in; a repository inside another is nothing to make unasked."""
    return next((place for place in (folder.resolve(), *folder.resolve().parents) if (place / ".git").exists()), None)


def _warn_of_long_path(folder: Path) -> None:
    socket = folder / SOCKET
    length = len(os.fsencode(socket))
    if length > SUN_PATH_BYTES:
        own = Path(f"/run/user/{os.geteuid()}")
        short = own if own.is_dir() else Path("/run/tower")
        screen.say(
            f"before `tower serve`: its control socket would be {socket}, a path of {length} bytes, and the system"
            f' takes at most {SUN_PATH_BYTES}; set [layover] socket = "{short}/NAME.sock" or the like'
        )
