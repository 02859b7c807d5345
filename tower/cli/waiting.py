"""Waiting for an itinerary (chain) in front of a person: progress while it goes on, a verdict at its end."""

from __future__ import annotations

import sys
from datetime import datetime

from tower.cli import screen, story
from tower.client import follow
from tower.client.api import Api
from tower.core.errors import NotFoundError


def until_over(
    api: Api, itinerary: str, *, quiet: bool = False, ends_with_us: bool = False
) -> tuple[story.Verdict, story.Story]:
    """Watch until nothing more can be waited for. Each change is a line on standard error, if that is a terminal.

    Whoever gives up watching (Ctrl-C) is told that the work goes on, unless it `ends_with_us`. `quiet`: no progress.
    """
    stories = follow.itinerary(api, itinerary, screen.say)
    shown = ""
    try:
        while True:
            seen = next(stories)
            if verdict := story.verdict(seen):
                return verdict, seen
            line = story.progress(seen, datetime.now().astimezone())
            # A hold is worth a line in a log file as well: it may last.
            if not quiet and line != shown and (sys.stderr.isatty() or seen["state"] == "held"):
                screen.say(line)
            shown = line
    except KeyboardInterrupt:
        if not ends_with_us:
            screen.say(f"\nit goes on without you: `tower wait {itinerary}` or `tower cancel {itinerary}`")
        raise


def answer(api: Api, run: str) -> bytes | None:
    """What a run answered; None when it left no answer."""
    try:
        return api.read(f"/runs/{run}/answer").body
    except NotFoundError:
        return None


def say(verdict: story.Verdict) -> None:
    """The verdict, in words."""
    screen.say(verdict.sentence + (f"\n  {verdict.advice}" if verdict.advice else ""))
