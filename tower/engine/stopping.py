"""Going down with `on_stop = "stop"`: every run is asked to end, and how it ended is on disk before the tower goes.

With `leave` there is nothing to do: runs belong to their keepers, and the next tower finds them.
"""

from __future__ import annotations

from tower.engine import conduct
from tower.engine.tower import WORK, Tower


async def stop_all(tower: Tower) -> None:
    """End every run and return when all are settled. They count as interrupted, so that their policy applies."""
    tower.stopping = tower.is_ending_all = True
    tower.wake()
    await conduct.stop_every(tower, "stop")
    await until_gone(tower)


async def until_gone(tower: Tower) -> None:
    """Return when no run is alive, and no process of a resident."""
    while tower.slots_used or tower.live:
        with tower.bus.listening(WORK) as freed:
            if tower.slots_used or tower.live:
                await freed.wait()
