"""What an id on the command line names. Any unambiguous tail will do; the tower resolves it."""

from __future__ import annotations

from typing import Any, Final

from tower.cli import screen, words
from tower.client import follow
from tower.client.api import Api
from tower.core import ids
from tower.core.errors import InvalidError, NotFoundError

_KINDS: Final = {ids.FLIGHT: "flight", ids.ITINERARY: "itinerary", ids.RUN: "run"}


def find(api: Api, text: str) -> tuple[str, str]:
    """The kind (flight, itinerary or run) and the whole id of what `text` names."""
    if not ids.is_tail(text):
        raise InvalidError("bad-id", f"cannot look up {text!r}: it is no id and no tail of one", _WHERE)
    prefix, _, tail = text.rpartition("_")
    if prefix in _KINDS and len(tail) == ids.ULID_CHARS:
        return _KINDS[prefix], text
    found = api.get(f"/find/{text}")
    return found["kind"], found["id"]


NOT_STARTED: Final = frozenset({"queued", "held", "parked", "starting"})
_WHERE: Final = "`tower ps -a` and `tower queue` list ids"


def itinerary(api: Api, text: str) -> str:
    """The itinerary (chain) that an id is or belongs to."""
    kind, known = find(api, text)
    if kind == "itinerary":
        return known
    document: dict[str, Any] = api.get(f"/{kind}s/{known}")
    return str(document["itinerary"])


def run(api: Api, text: str, *, wait: bool = False) -> str:
    """The run that an id names; of a flight (message), its latest one. `wait`: until a flight has one."""
    kind, known = find(api, text)
    if kind == "run":
        return known
    if kind == "itinerary":
        raise InvalidError(
            "not-a-run", f"cannot take {known} for a run", f"it is a chain of runs: `tower show {known}`"
        )
    flight = api.get(f"/flights/{known}")
    if not flight["runs"] and wait:
        flight = _started(api, flight)
    if not flight["runs"]:
        hint = "see `tower queue`" if flight["state"] in NOT_STARTED else f"it is {flight['state']}, and never was"
        raise NotFoundError("no-run-yet", f"cannot find a run of {known}: it has not been started", hint)
    return str(flight["runs"][-1]["id"])


def _started(api: Api, flight: dict[str, Any]) -> dict[str, Any]:
    """The flight when it has a run, or when it is over without one."""
    said = ""
    for _ in follow.itinerary(api, flight["itinerary"], screen.say):
        flight = api.get(f"/flights/{flight['id']}")
        if flight["runs"] or flight["state"] not in NOT_STARTED:
            break
        if (why := words.why(flight, screen.when)) != said:
            screen.say(f"it has not started: {why}")
            said = why
    return flight
