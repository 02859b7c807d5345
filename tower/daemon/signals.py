"""What signals do: SIGHUP looks at the configuration, SIGTERM and SIGINT end the tower as `on_stop` says.

And what the service manager is told meanwhile: one line of truth.
"""

from __future__ import annotations

import signal
from typing import Final

import anyio

from tower.core.errors import BusyError
from tower.core.factory import OnStop
from tower.engine import stopping
from tower.engine.reload import Configuration
from tower.engine.tower import Tower, log
from tower.store import events
from tower.system import service
from tower.system.sdnotify import ServiceManager

TRUTH_SEC: Final = 1.0
"""How old the line of truth may be. Putting it together costs microseconds, and it is sent only when it has changed."""


async def until_told(tower: Tower, manager: ServiceManager, configuration: Configuration) -> None:
    """Return when the tower may go: after a signal, and what `on_stop` makes of it; after a second one at once."""
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as received:
        async with anyio.create_task_group() as group:
            told = False
            async for number in received:
                if number == signal.SIGHUP:
                    group.start_soon(_reload, tower, manager, configuration)
                elif told:
                    log.warning("tower.stopping-at-once", live=len(tower.live))
                    group.cancel_scope.cancel()
                    return
                else:
                    told = True
                    group.start_soon(_go_down, tower, manager, group.cancel_scope)


async def _reload(tower: Tower, manager: ServiceManager, configuration: Configuration) -> None:
    manager.reloading()
    try:
        await configuration.look(tower)
    except BusyError as error:
        log.error("config.failed", error=str(error))
    manager.ready(truth(tower))


async def _go_down(tower: Tower, manager: ServiceManager, done: anyio.CancelScope) -> None:
    manager.stopping()
    tower.stopping = True
    leave = tower.factory.settings.on_stop is OnStop.LEAVE
    if leave and "INVOCATION_ID" in tower.environ:
        # Under systemd the same signal means a restart, which leaves, or a stop, which stops.
        leave = await service.is_restart(tower.environ)
    log.info("tower.stopping", live=len(tower.live), leaves=leave)
    if not leave:
        await stopping.stop_all(tower)
    event = tower.event("tower.stopped", left=len(tower.live))
    try:
        await tower.store.write(lambda connection: events.append(connection, event))
    except BusyError as error:
        # A full disk must not keep the tower from going; the next start finds out by itself.
        log.error("tower.stopped", error=str(error))
    done.cancel()


async def tell_truth(tower: Tower, manager: ServiceManager) -> None:
    """Keep the service manager's line true, for ever."""
    told = None
    while manager.address is not None:
        line = truth(tower)
        if line != told and not tower.stopping:
            manager.status(line)
            told = line
        await anyio.sleep(TRUTH_SEC)


def truth(tower: Tower) -> str:
    """One line for the service manager: first what wants a person."""
    parts = [f"{len(tower.live)} running", f"generation {tower.factory.generation}"]
    if tower.draining:
        parts.insert(0, "draining")
    if tower.problems:
        count = len(tower.problems)
        parts.insert(0, f"the last edit is refused ({count} problem{'s' * (count > 1)})")
    if tower.ground_stop:
        parts.insert(0, f"GROUND STOP {tower.ground_stop.words()}")
    return ", ".join(parts)
