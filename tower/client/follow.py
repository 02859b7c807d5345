"""Watching something until it ends: an itinerary (chain) by long polls, a log by its offsets.

Both outlive a restart of the tower: runs do, so whoever watches them waits for it to come back, and so does a run that
hands work on. What is printed of it, and which end is a good one, is the business of `cli`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

from tower.client.api import Api, Query
from tower.client.unreachable import CUT, GONE, NOWHERE, foreign
from tower.client.wire import Reply
from tower.core.errors import BusyError, UnreachableError

POLL_SECONDS: Final = 25.0
"""How long the tower holds back an answer that has no news; under the half minute at which proxies hang up."""

RETURN_SECONDS: Final = 30.0
"""How long a tower may be gone before a watcher gives up: a restart that settles a thousand runs takes a second."""

RETRY_SECONDS: Final = 0.25

WENT_AWAY: Final = frozenset({CUT, GONE})
AWAY: Final = WENT_AWAY | {NOWHERE}

LOG_BYTES: Final = 1 << 20
"""Bytes of a log asked for at once."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Some bytes of a log. `offset` is logical: where they begin in all that the program ever wrote."""

    offset: int
    data: bytes
    dropped: int
    """Bytes just before these that were cut out of the middle of the log."""


def itinerary(api: Api, itinerary: str, note: Callable[[str], None]) -> Iterator[dict[str, Any]]:
    """Yield the itinerary's document now and after each change, for as long as the caller wants more."""
    path = f"/itineraries/{itinerary}"
    story = _patiently(partial(api.get, path), note)
    while True:
        yield story
        query: Query = {"wait": POLL_SECONDS, "after": story["seq"]}
        story = _patiently(partial(api.get, path, query, wait=POLL_SECONDS), note)


def log(api: Api, run: str, note: Callable[[str], None], *, stream: str, offset: int, follow: bool) -> Iterator[Piece]:
    """Yield the log of a run from `offset` (negative: from the end); with `follow`, until the run is over."""
    wait = POLL_SECONDS if follow else 0.0
    while True:
        query: Query = {"stream": stream, "offset": offset, "limit": LOG_BYTES, "wait": wait}
        reply = _patiently(partial(api.read, f"/runs/{run}/log", query, wait=wait), note)
        begin = _offset(reply, "x-offset", api)
        if reply.body:
            yield Piece(offset=begin, data=reply.body, dropped=max(0, begin - offset) if offset >= 0 else 0)
        offset = _offset(reply, "x-next-offset", api)
        if reply.headers.get("x-ended") == "1" or not (follow or reply.body):
            return


def _offset(reply: Reply, name: str, api: Api) -> int:
    text = reply.headers.get(name, "")
    if not text.isdecimal():
        raise foreign(api.socket_path, f"a log without the header {name}")
    return int(text)


def send(api: Api, request: dict[str, Any], note: Callable[[str], None]) -> dict[str, Any]:
    """Send as a run, and return the tower's answer. `request` has a key: repeated, it is the same flight."""
    return _patiently(partial(api.post, "/flights", request), note, when=AWAY)


def _patiently(ask: Callable[[], T], note: Callable[[str], None], *, when: Collection[str] = WENT_AWAY) -> T:
    """Ask, and ask again for a while when the tower went away under the question, or whatever else `when` names."""
    deadline: float | None = None
    while True:
        try:
            return ask()
        except (UnreachableError, BusyError) as error:
            if isinstance(error, UnreachableError) and error.code not in when:
                raise
            now = time.monotonic()
            if deadline is None:
                deadline = now + RETURN_SECONDS
                note("the tower went away; runs go on without it, waiting for it to come back")
            elif now > deadline:
                raise
        time.sleep(RETRY_SECONDS)
