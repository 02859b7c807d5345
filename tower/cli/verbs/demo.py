"""`tower demo`: the main job in front of your eyes, with nothing installed and nothing left behind."""

from __future__ import annotations

import textwrap
import time
from pathlib import Path
from typing import Any, Final

import click

from tower.cli import exits, safe, screen, throwaway, waiting, words
from tower.client.api import Api
from tower.system.git import git

LINE: Final = "and nobody has committed what I write."
SCRIBBLE: Final = "scribbled by the reviewer"


@click.command("demo", short_help="See a flight (message) land, in a throw-away factory.")
@click.option("--keep", is_flag=True, help="Leave the folder for a closer look.")
def command(keep: bool) -> int:
    """Make a git repository and a factory of three agents in a temporary folder, serve it, send one flight (message),
    and show what each agent was told and answered.

    The writer changes a file and does not commit; the reviewer, in a snapshot, sees that change, and what it writes
    itself goes no further; a join wakes the editor once, with what both said. The agents follow a script: no network,
    no account, no agent program.
    """
    began = time.monotonic()
    with throwaway.folder(keep=keep, values={"LINE": LINE, "SCRIBBLE": SCRIBBLE}) as place:
        screen.out(f"A git repository and a factory with a writer, a reviewer and an editor, in {place}")
        with throwaway.served(place) as api:
            screen.out(f"\n$ tower send writer '{LINE}' --wait")
            sent = api.post("/flights", {"to": "writer", "body": LINE})
            verdict, seen = waiting.until_over(api, sent["itinerary"], ends_with_us=True)
            answers = [_show(api, run) for run in seen["runs"]]
        good = _shown(place, "\n".join(answers), seen["runs"]) and verdict.code == exits.DONE
        waiting.say(verdict)
        screen.say(f"{words.duration(time.monotonic() - began)}; the tower is stopped, the folder {_fate(place, keep)}")
    return exits.DONE if good else exits.FAILED


def _show(api: Api, run: dict[str, Any]) -> str:
    """Print what one run was told and answered; returns its answer."""
    told = api.read(f"/runs/{run['id']}/payload").body.decode(errors="replace")
    answer = (waiting.answer(api, run["id"]) or b"").decode(errors="replace")
    kind = "the live tree" if run["workspace_kind"] == "live" else "a snapshot of it"
    for title, text in ((f"{run['agent']}, in {kind}, was told", told), (f"{run['agent']} answered", answer)):
        screen.out(f"\n{title}:")
        screen.out(textwrap.indent(safe.block(text.rstrip()), "  | ", lambda _: True))
    return answer


def _shown(place: Path, answers: str, runs: list[dict[str, Any]]) -> bool:
    """Say what has been seen to hold; whether all of it did."""
    tree = place / "workspace"
    poem = (tree / "poem.txt").read_text()
    changed = git(["diff", "--name-only", "HEAD"], git_dir=str(tree / ".git"), work_tree=str(tree))
    woken_with = [len(run["flights"]) for run in runs if run["agent"] == "editor"]
    claims = {
        "the reviewer saw the line that nobody had committed": f"+{LINE}" in answers,
        "the live tree has that line, still uncommitted": LINE in poem and changed == b"poem.txt\n",
        "what the reviewer wrote stayed in its snapshot": SCRIBBLE not in poem,
        "the editor was woken once, with what both had sent": woken_with == [2],
    }
    screen.out("")
    for claim, holds in claims.items():
        screen.out(f"{'yes' if holds else 'NO '}  {claim}")
    return all(claims.values())


def _fate(place: Path, keep: bool) -> str:
    return f"is kept: {place}" if keep else "removed"
