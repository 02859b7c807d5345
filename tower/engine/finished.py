"""A program that has printed its final result and stays: noticed, and asked to end. Judging it is `core.outcome`'s.

Its output is looked at only once it has printed nothing more for `grace_sec`, so that a flood costs nothing here.
"""

from __future__ import annotations

from functools import partial

import anyio
import anyio.to_thread

from tower.core.errors import BusyError
from tower.engine.evidence import reading_of
from tower.engine.tower import LiveRun, Tower


async def until_finished(tower: Tower, live: LiveRun) -> None:
    """Return when the program of a run has closed its output with a result record and has not ended since."""
    folder = tower.state.run_folder(live.run.agent, live.run.id)
    known, since, looked = live.printed, anyio.current_time(), False
    while True:
        with tower.bus.listening(live.run.id) as news:
            if live.printed != known:
                known, since, looked = live.printed, anyio.current_time(), False
            due = None if looked or not known else since + tower.factory.settings.grace_sec - anyio.current_time()
            with anyio.move_on_after(due) as waiting:
                await news.wait()
        if not waiting.cancelled_caught:
            continue
        try:
            reading = await anyio.to_thread.run_sync(partial(reading_of, live, folder))
        except BusyError:
            since = anyio.current_time()
            continue
        if reading.record is not None:
            return
        looked = True
