"""The tower's tools, for programs that are told of them: made ready by the time they are asked for, and who never asks.

Whether a program is told, and how, is the configuration's and `runners.tools`'; the door itself is `mcp`'s.
"""

from __future__ import annotations

from functools import partial

import anyio

from tower.core.factory import Runner
from tower.engine.tower import LiveRun, Tower
from tower.store import events, runs
from tower.store.database import Connection


def make_ready(tower: Tower, runner: Runner) -> None:
    """A program of `runner` is about to start, or is alive already: have the tools there for it, if it was told."""
    if runner.mcp is not None and runner.mcp.is_wired:
        tower.tools_wanted.set()


def expect(tower: Tower, live: LiveRun) -> None:
    """From now on wait for a run to ask for the tools, if its program was told of them."""
    if live.runner.mcp is not None and live.runner.mcp.is_wired:
        tower.tasks.start_soon(_mark_if_silent, tower, live)


def asked(tower: Tower, live: LiveRun) -> None:
    """A run has asked which tools there are. The caller does not wait until that is written down."""
    if not live.has_tools.is_set():
        live.has_tools.set()
        at = tower.clock()
        tower.tasks.start_soon(
            tower.persist, lambda connection: runs.update(connection, live.run.id, tools_at=at), name="tools asked for"
        )


async def _mark_if_silent(tower: Tower, live: LiveRun) -> None:
    """A run whose program was told where the tools are, and does not ask for them, has none: say so."""
    with anyio.move_on_after(live.agent.mcp_grace_sec):
        await live.has_tools.wait()
        return
    words = f"has no tools of the tower: it did not ask for them within {live.agent.mcp_grace_sec:g} s"
    if live.run.id in tower.live:
        await tower.persist(partial(_mark, tower, live, words))


def _mark(tower: Tower, live: LiveRun, words: str, connection: Connection) -> None:
    run = runs.get(connection, live.run.id)
    if run is not None and words not in run.notes:  # an earlier tower may have said it
        runs.add_notes(connection, run.id, (words,))
        told = tower.event("run.without-tools", itinerary=run.itinerary, run=run.id, agent=run.agent)
        events.append(connection, told)
