"""Telling a person: the command of `[layover] notify` is run for events that want one.

It never holds the tower up: notices wait in a short queue, one command runs at a time for a bounded time, and the same
thing is told once in a while, not once a flight.
"""

from __future__ import annotations

import json
from typing import Any, Final

import anyio

from tower.core import environment
from tower.core.records import Event
from tower.core.states import HeldReason
from tower.engine.tower import Tower, log
from tower.system.command import run_bounded

SECONDS: Final = 30.0
"""How long the command may take: it sends a mail or a message."""

AGAIN_SEC: Final = 600.0
"""The same thing of the same agent is told once in ten minutes; a hundred held flights are one notice."""

WAITING: Final = 64
"""Notices that may wait for the command; more are dropped, and the log says so."""

FORMAT: Final = 1
"""Number of the document's format; a key may be added under the same number."""

WANTED: Final = frozenset(
    {
        "flight.held",
        "flight.dead",
        "help.requested",
        "join.given-up",
        "resident.quarantined",
        "config.refused",
        "ground-stop.on",
        "disk.full",
    }
)

KNOWN_TO_THE_PERSON: Final = frozenset({HeldReason.GROUND_STOP})
"""Holds that a person caused, and was told of by that."""


class Notices:
    """The notices of one tower. `hear` takes events in, `tell` carries them out for ever."""

    def __init__(self, tower: Tower) -> None:
        self._tower = tower
        self._told: dict[tuple[Any, ...], float] = {}
        self._sender, self._receiver = anyio.create_memory_object_stream[dict[str, Any]](WAITING)

    def hear(self, event: Event) -> None:
        """Take in an event; what wants nobody is passed over."""
        if not self._tower.factory.settings.notify or not _wants_a_person(event):
            return
        key = (event.type, event.agent, event.data.get("reason"), event.data.get("help"))
        last = self._told.get(key)
        if last is not None and event.at - last < AGAIN_SEC:
            return
        self._told[key] = event.at
        try:
            self._sender.send_nowait(_document(event))
        except (anyio.WouldBlock, anyio.BrokenResourceError, anyio.ClosedResourceError):
            log.warning("notice.dropped", type=event.type)

    async def tell(self) -> None:
        """Run the command for each notice, one after another."""
        with self._sender, self._receiver:
            async for document in self._receiver:
                argv = self._tower.factory.settings.notify
                if argv:
                    await self._run(argv, document)

    async def _run(self, argv: tuple[str, ...], document: dict[str, Any]) -> None:
        environ = self._tower.environ
        env = environment.common(environ, home=environ.get("HOME", "/"), tmpdir=environ.get("TMPDIR", "/tmp"))  # noqa: S108
        problem = await run_bounded(argv, given=json.dumps(document).encode(), env=env, seconds=SECONDS)
        if problem:
            log.warning("notice.failed", type=document["type"], problem=problem)


def _wants_a_person(event: Event) -> bool:
    return event.type in WANTED and event.data.get("reason") not in KNOWN_TO_THE_PERSON


def _document(event: Event) -> dict[str, Any]:
    named = {"agent": event.agent, "flight": event.flight, "itinerary": event.itinerary, "run": event.run}
    return {"format": FORMAT, "type": event.type, "at": event.at, **named, "data": dict(event.data)}
