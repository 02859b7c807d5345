"""`/events`: everything that happens, as server-sent events that can be resumed."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Header, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from tower.control.rights import require_person
from tower.web.door import Asking, Door
from tower.web.stream import EventStream, closing_of

router = APIRouter(tags=["events"])

STREAM: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "an event per message: `id` is its sequence number, `event` its type, `data` JSON",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    }
}


class Start(BaseModel):
    """Where to begin."""

    model_config = ConfigDict(extra="forbid")

    after: int = Field(default=0, ge=0, lt=1 << 63, description="sequence number: later events only")


@router.get("/events", response_class=Response, responses=STREAM)
async def events(
    start: Annotated[Start, Query()],
    request: Request,
    door: Door,
    caller: Asking,
    last_event_id: Annotated[str | None, Header(description="where a broken stream ended; beats `after`")] = None,
) -> Response:
    """What happened after a sequence number, and then what happens, until the client goes away."""
    require_person(caller, "follow events")  # before the answer begins; afterwards a refusal cannot be told
    after = int(last_event_id) if last_event_id and last_event_id.isdecimal() else start.after
    return EventStream(door.factory.events(caller, min(after, (1 << 63) - 1)), closing_of(request.app))
