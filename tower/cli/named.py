"""What an id on the command line names. Any unambiguous tail will do; the tower resolves it."""

from __future__ import annotations

from typing import Any, Final

from tower.client.api import Api
from tower.core import ids
from tower.core.errors import InvalidError, NotFoundError

ULID_CHARS: Final = 26
_KINDS: Final = {ids.FLIGHT: "flight", ids.ITINERARY: "itinerary", ids.RUN: "run"}


def find(api: Api, text: str) -> tuple[str, str]:
    """The kind (flight, itinerary or run) and the whole id of what `text` names."""
    if not ids.is_tail(text):
        raise InvalidError("bad-id", f"cannot look up {text!r}: it is no id and no tail of one", _WHERE)
    prefix, _, tail = text.rpartition("_")
    if prefix in _KINDS and len(tail) == ULID_CHARS:
        return _KINDS[prefix], text
    found = api.get(f"/find/{text}")
    return found["kind"], found["id"]


_WHERE: Final = "`tower ps -a` and `tower queue` list ids"


def itinerary(api: Api, text: str) -> str:
    """The itinerary (chain) that an id is or belongs to."""
    kind, known = find(api, text)
    if kind == "itinerary":
        return known
    document: dict[str, Any] = api.get(f"/{kind}s/{known}")
    return str(document["itinerary"])


def run(api: Api, text: str) -> str:
    """The run that an id names; of a flight (message), its latest one."""
    kind, known = find(api, text)
    if kind == "run":
        return known
    if kind == "itinerary":
        raise InvalidError(
            "not-a-run", f"cannot take {known} for a run", f"it is a chain of runs: `tower show {known}`"
        )
    runs = api.get(f"/flights/{known}")["runs"]
    if not runs:
        raise NotFoundError("no-run-yet", f"cannot find a run of {known}: it has not been started", "see `tower queue`")
    return str(runs[-1]["id"])
