"""Writing down now and then that runs are alive, so that after a crash it is known when they were last seen."""

from __future__ import annotations

from functools import partial
from typing import Final

import anyio

from tower.core.errors import BusyError
from tower.engine.tower import Tower, log
from tower.store import runs
from tower.store.database import Connection
from tower.system.survivors import reap_orphans

EVERY_SEC: Final = 15.0
"""How exact "last seen alive" is. Nothing is written while nothing runs."""


async def keep_seen(tower: Tower) -> None:
    """Note the living, for ever."""
    while True:
        await anyio.sleep(EVERY_SEC)
        # What a killed keeper left came to the tower, and may have ended since.
        reap_orphans()
        seen = [live.run.process for live in tower.live.values() if live.link is not None and live.run.turn is None]
        seen += [one.process.id for one in tower.residents.values() if one.process and one.link is not None]
        if seen:
            try:
                await tower.store.write(partial(_note, seen, tower.clock()))
            except BusyError as error:
                log.warning("presence.failed", error=str(error))


def _note(processes: list[str], at: float, connection: Connection) -> None:
    for process in processes:
        runs.update_process(connection, process, last_seen_at=at)
