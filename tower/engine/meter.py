"""What runs under way are seen to have cost: it takes the place of what was set aside for them as soon as it is more.

Whoever reports while it works is seen so; everybody else is charged at the end (`settle`). With `fuel_action = "stop"`
a run that takes its chain past its Fuel is asked to end.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread

from tower.core.errors import BusyError, ConflictError
from tower.core.factory import FuelAction
from tower.core.pricing import price
from tower.engine import conduct, money
from tower.engine.evidence import reading_of
from tower.engine.tower import LiveRun, Tower, log

LOOK_SEC: Final = 2.0
"""How often what runs wrote is looked at. Nothing is read while nothing of it has changed."""

Written = tuple[tuple[int, int], ...]


async def watch(tower: Tower) -> None:
    """Look at every run with a process of its own, for ever."""
    known: dict[str, Written] = {}
    while True:
        await anyio.sleep(LOOK_SEC)
        runs = [live for live in tower.live.values() if live.link is not None and live.run.turn is None]
        known = {run: written for run, written in known.items() if run in tower.live}
        for live in runs:
            written = _written(tower.state.run_folder(live.run.agent, live.run.id))
            if known.get(live.run.id) != written:
                known[live.run.id] = written
                try:
                    await look(tower, live)
                except (BusyError, ConflictError) as error:
                    log.warning("meter.failed", run=live.run.id, error=str(error))


async def look(tower: Tower, live: LiveRun) -> None:
    """See what a run has cost so far. Raises `BusyError`; `ConflictError` when it could not be asked to end."""
    folder = tower.state.run_folder(live.run.agent, live.run.id)
    reading = await anyio.to_thread.run_sync(reading_of, live, folder)
    seen = price(reading, tower.factory, live.runner, asked=live.run.model_asked).cost
    if seen is None or seen <= live.run.reserved or live.run.id not in tower.live:
        return
    over = await tower.store.write(partial(money.see, tower, run=live.run, amount=seen))
    if over and tower.factory.settings.fuel_action is FuelAction.STOP and live.stopping is None:
        await conduct.stop(tower, live, "fuel")


def _written(folder: Path) -> Written:
    """Sizes and times of what a run reports in; the same while nothing was written."""
    found = []
    for name in ("out/report", "stdout.log"):
        try:
            status = (folder / name).stat()
        except OSError:
            continue
        found.append((status.st_mtime_ns, status.st_size))
    return tuple(found)
