"""Wake-ups inside the daemon: what was committed is told to those who wait for it.

The bus carries no content: a waiter looks again at the store. So a missed detail cannot exist, and a slow waiter
holds nobody up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final

import anyio

from tower.core.records import Event

ALL: Final = ""
"""The topic that every commit wakes."""


class Bus:
    """Topics are ids of itineraries and runs, and `ALL`."""

    def __init__(self) -> None:
        self._waiters: defaultdict[str, set[anyio.Event]] = defaultdict(set)
        self._listeners: list[Callable[[Event], None]] = []

    def on_event(self, listener: Callable[[Event], None]) -> None:
        """Have `listener` called for each committed event, in order, in the event loop."""
        self._listeners.append(listener)

    def publish(self, events: Iterable[Event]) -> None:
        """Tell what was committed."""
        topics = {ALL}
        for event in events:
            for listener in self._listeners:
                listener(event)
            topics |= {topic for topic in (event.itinerary, event.run) if topic}
        for topic in topics:
            self.pulse(topic)

    def pulse(self, topic: str) -> None:
        """Wake those who wait for a topic now."""
        for waiter in self._waiters.pop(topic, ()):
            waiter.set()

    @contextmanager
    def listening(self, topic: str) -> Iterator[anyio.Event]:
        """An event that the next pulse of a topic sets.

        Take it before looking at the store and wait after, so that nothing between the two is missed.
        """
        waiter = anyio.Event()
        self._waiters[topic].add(waiter)
        try:
            yield waiter
        finally:
            waiting = self._waiters.get(topic)
            if waiting is not None:
                waiting.discard(waiter)
                if not waiting:
                    del self._waiters[topic]
