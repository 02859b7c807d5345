"""The drain: nothing starts, what runs goes on. A file in the state folder, so that a restart does not end it.

`touch` and `rm` of the file work as the verbs do.
"""

from __future__ import annotations

from typing import Final

import anyio

from tower.core.errors import BusyError, ConflictError
from tower.engine.tower import Tower, log
from tower.store import events
from tower.system.standing_order import Order, StandingOrder

LOOK_SEC: Final = 0.5
"""How often the file is looked for: a `stat` call."""


async def watch(tower: Tower) -> None:
    """Follow the file for ever."""
    while True:
        await look(tower)
        await anyio.sleep(LOOK_SEC)


async def look(tower: Tower) -> None:
    """Bring the tower in line with the file."""
    order = _order(tower)
    if order.is_there() is tower.draining:
        return
    said = order.read(tower.clock())
    tower.draining = said is not None
    tower.wake()
    told = tower.event("tower.resumed") if said is None else tower.event("tower.draining", by=said.by, why=said.why)
    try:
        await tower.store.write(lambda connection: events.append(connection, told))
    except BusyError as error:
        log.error("drain.unrecorded", error=str(error))


async def begin(tower: Tower, *, by: str) -> None:
    """Write the file and act on it; a drain under way stays as it is. Raises `BusyError` when it cannot be made."""
    order = _order(tower)
    try:
        if not order.is_there():
            order.give(Order(since=tower.clock(), by=by, why=""))
    except OSError as error:
        raise BusyError(
            "drain", f"cannot drain: {order.path}: {error.strerror}", "make room, or give back the right to write there"
        ) from error
    await look(tower)


async def end(tower: Tower) -> None:
    """Remove the file and act on it; ending what is not under way is fine. Raises `ConflictError`."""
    order = _order(tower)
    try:
        order.withdraw()
    except OSError as error:
        raise ConflictError(
            "drain", f"cannot end the drain: {order.path}: {error.strerror}", "remove it by hand"
        ) from error
    await look(tower)


def _order(tower: Tower) -> StandingOrder:
    return StandingOrder(tower.state.drain)
