"""Forgetting what is older than `retention_days`: chains that are over, the folders of their runs, what these changed
in their trees, events.

Memory stays, and so does whatever is still open, however old it is. Folders go before their records, so that a crash
in between leaves nothing that no record leads to. Which records these are is left to `store.retention`.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread

from tower.core.errors import BusyError
from tower.engine.places import snapshot_folder
from tower.engine.tower import Tower, log
from tower.store import events, retention
from tower.store.database import Connection
from tower.system.volumes import drop_unneeded
from tower.system.workspace import remove_folder

EVERY_SEC: Final = 6 * 3600.0
"""Days are counted; to look more often would find nothing."""

AT_ONCE: Final = 50
"""Chains or processes of one transaction, so that no send waits for long."""

EVENTS_AT_ONCE: Final = 1000

DAY_SEC: Final = 86400.0


async def keep(tower: Tower) -> None:
    """Forget what is old, for ever. What the disk refuses is tried again the next time."""
    while True:
        try:
            await forget(tower)
            await drop_trees(tower)
        except BusyError as error:
            log.warning("retention.failed", error=str(error))
        await anyio.sleep(EVERY_SEC)


async def forget(tower: Tower) -> None:
    """One look, by the `retention_days` of the live generation. Raises `BusyError`."""
    days = tower.factory.settings.retention_days
    if not days:
        return
    before = tower.clock() - days * DAY_SEC
    chains = runs = 0
    while found := await tower.store.read(partial(retention.chains, before=before, limit=AT_ONCE)):
        gone = await tower.store.read(partial(retention.runs_of, itineraries=found))
        await _remove(tower, gone)
        await tower.store.write(partial(retention.forget_chains, itineraries=found))
        chains, runs = chains + len(found), runs + len(gone)
    while ended := await tower.store.read(partial(retention.processes, before=before, limit=AT_ONCE)):
        await _remove(tower, ended)
        await tower.store.write(partial(retention.forget_processes, identities=[identity for _, identity in ended]))
    forget_events = partial(retention.forget_events, before=before, limit=EVENTS_AT_ONCE)
    while await tower.store.write(forget_events) == EVENTS_AT_ONCE:
        pass
    if chains:
        told = tower.event("history.forgotten", chains=chains, runs=runs, older_than_days=days)

        def tell(connection: Connection) -> None:
            events.append(connection, told)

        await tower.store.write(tell)


async def drop_trees(tower: Tower) -> None:
    """Drop what was kept of live trees for runs that are not on record any more, or never came to be."""
    needed = await tower.store.read(retention.trees)
    drop = partial(drop_unneeded, str(tower.state.trees), needed, tower.clock())
    for problem in await anyio.to_thread.run_sync(drop):
        log.warning("trees.left", problem=problem)


async def _remove(tower: Tower, folders: list[tuple[str, str]]) -> None:
    """Remove the folders of runs or processes, and the snapshots that were kept of them.

    One that cannot be removed is logged and forgotten all the same.
    """
    for agent, identity in folders:
        for folder in (snapshot_folder(tower.factory, identity), tower.state.run_folder(agent, identity)):
            problem = await anyio.to_thread.run_sync(_removed, folder)
            if problem:
                log.warning("retention.left", folder=str(folder), problem=problem)


def _removed(folder: Path) -> str | None:
    return remove_folder(str(folder)) if folder.exists() else None
