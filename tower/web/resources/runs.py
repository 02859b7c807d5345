"""`/runs`: list, show, cancel, recover; and what a run was told, printed and answered."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from tower.web import shapes
from tower.web.door import Asking, Door, Identity, Json, Text, plain
from tower.web.stream import while_wanted

router = APIRouter(prefix="/runs", tags=["runs"])

TEXT: Final[dict[int | str, dict[str, Any]]] = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}

PAGE: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "bytes of the log",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
        "headers": {
            "X-Offset": {
                "description": "where these bytes begin; more than asked where a middle was dropped",
                "schema": {"type": "integer"},
            },
            "X-Next-Offset": {"description": "where to go on", "schema": {"type": "integer"}},
            "X-Ended": {"description": "1: the run is over and nothing follows", "schema": {"enum": ["0", "1"]}},
        },
    }
}


DIFF: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "bytes, in whatever encoding the files have",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


class Selection(BaseModel):
    """Which runs."""

    model_config = ConfigDict(extra="forbid")

    all: bool = Field(default=False, description="those that are over too")
    agent: str | None = Field(default=None, max_length=200)
    limit: int = Field(default=100, ge=1, le=10_000)


class Page(BaseModel):
    """Which part of a log."""

    model_config = ConfigDict(extra="forbid")

    stream: Literal["stdout", "stderr"] = "stdout"
    offset: int = Field(
        default=0, ge=-(1 << 63), lt=1 << 63, description="logical, of all that was ever printed; below 0 from the end"
    )
    limit: int = Field(default=64 << 10, ge=1, le=1 << 20, description="bytes")
    wait: float = Field(default=0, ge=0, le=60, description="seconds that an empty answer may be held back")


class Showing(BaseModel):
    """How a difference is shown."""

    model_config = ConfigDict(extra="forbid")

    form: Literal["patch", "stat", "names"] = Field(
        default="patch", description="a patch for `git apply`, or the sizes or names of what changed"
    )


class Recovery(BaseModel):
    """How to start interrupted work again."""

    model_config = ConfigDict(extra="forbid", strict=True)

    note: Text | None = Field(default=None, max_length=10_000, description="words for the next run")
    force: bool = Field(default=False, description="once more, though its attempts are used up")


@router.get("", response_model=shapes.Runs)
async def listing(selection: Annotated[Selection, Query()], door: Door, caller: Asking) -> Json:
    """Runs, newest first: those alive, or all."""
    return Json(await door.runs.listing(caller, every=selection.all, agent=selection.agent, limit=selection.limit))


@router.get("/{identity}", response_model=shapes.Run)
async def show(identity: Identity, door: Door, caller: Asking) -> Json:
    """One run."""
    return Json(await door.runs.show(caller, identity))


@router.post("/{identity}/cancel", status_code=202, response_model=shapes.Run)
async def cancel(identity: Identity, door: Door, caller: Asking) -> Json:
    """Ask a run to end; answered at once, while it ends."""
    return Json(await door.runs.cancel(caller, identity), status_code=202)


@router.post("/{identity}/recover", response_model=shapes.Flight)
async def recover(identity: Identity, wanted: Recovery, door: Door, caller: Asking) -> Json:
    """Start the interrupted work of a run again, on a person's word."""
    return Json(await door.runs.recover(caller, identity, note=wanted.note, force=wanted.force))


@router.get("/{identity}/log", response_class=Response, responses=PAGE)
async def log(
    identity: Identity, page: Annotated[Page, Query()], request: Request, door: Door, caller: Asking
) -> Response:
    """A page of what the run printed, from disk; with `wait`, an empty one is held back until something comes."""
    found = await while_wanted(
        request,
        lambda: door.runs.log(
            caller, identity, stream=page.stream, offset=page.offset, limit=page.limit, wait=page.wait
        ),
    )
    headers = {
        "X-Offset": str(found.offset),
        "X-Next-Offset": str(found.next_offset),
        "X-Ended": "1" if found.ended else "0",
    }
    return Response(content=found.data, media_type="application/octet-stream", headers=headers)


@router.get("/{identity}/diff", response_class=Response, responses=DIFF)
async def diff(identity: Identity, wanted: Annotated[Showing, Query()], door: Door, caller: Asking) -> Response:
    """What a writer's run changed in its live tree, committed or not; of one that is alive, so far."""
    return Response(content=await door.runs.diff(caller, identity, wanted.form), media_type="application/octet-stream")


@router.get("/{identity}/payload", response_class=Response, responses=TEXT)
async def payload(identity: Identity, door: Door, caller: Asking) -> Response:
    """What the run was told, whole."""
    return plain(await door.runs.payload(caller, identity))


@router.get("/{identity}/report", response_model=shapes.Report)
async def report(identity: Identity, door: Door, caller: Asking) -> Json:
    """What the run reported of itself."""
    return Json(await door.own.report_of(caller, identity))


@router.get("/{identity}/answer", response_class=Response, responses=TEXT)
async def answer(identity: Identity, door: Door, caller: Asking) -> Response:
    """What the run answered."""
    return plain(await door.runs.answer(caller, identity))
