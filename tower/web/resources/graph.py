"""`/graph`: the routes of the live generation, as a picture, a diagram or a document."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

import anyio.to_thread
from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from tower.core.drawing.mermaid import flowchart
from tower.core.drawing.svg import picture
from tower.core.factory_map import document, factory_map
from tower.web.door import Asking, Door, Json
from tower.web.route_map import Graph

router = APIRouter(tags=["pipelines"])


class Format(StrEnum):
    """How the map is written."""

    SVG = "svg"
    MERMAID = "mermaid"
    JSON = "json"


TYPES: Final = {
    "image/svg+xml": Format.SVG,
    "text/vnd.mermaid": Format.MERMAID,
    "text/plain": Format.MERMAID,
    "application/json": Format.JSON,
}
"""What a client may accept. One that takes anything gets the picture."""

ALONE: Final = {"content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox"}
"""A picture that is opened by itself may use its own style, and nothing else."""


class Wanted(BaseModel):
    """What is to be drawn."""

    model_config = ConfigDict(extra="forbid")

    pipeline: str | None = Field(default=None, max_length=80, description="only what its chains can come to")
    format: Format | None = Field(default=None, description="else what the Accept header prefers, else svg")


@router.get(
    "/graph",
    response_model=Graph,
    responses={200: {"content": {"image/svg+xml": {}, "text/vnd.mermaid": {}}}},
)
async def graph(wanted: Annotated[Wanted, Query()], request: Request, door: Door, caller: Asking) -> Response:
    """Who may send to whom: agents, ways in, joins and routes of the live generation."""
    factory = await door.factory.mapped(caller, wanted.pipeline)
    # A factory of hundreds of agents takes long enough to be felt by others.
    shown = await anyio.to_thread.run_sync(factory_map, factory, wanted.pipeline)
    form = wanted.format or _preferred(request.headers.get("accept", ""))
    if form is Format.JSON:
        return Json(document(shown))
    if form is Format.MERMAID:
        return Response(flowchart(shown), media_type="text/vnd.mermaid; charset=utf-8")
    return Response(await anyio.to_thread.run_sync(picture, shown), media_type="image/svg+xml", headers=ALONE)


def _preferred(accept: str) -> Format:
    """The format that an Accept header ranks highest."""
    best, form = 0.0, Format.SVG
    for part in accept.split(","):
        media, *parameters = (piece.strip().lower() for piece in part.split(";"))
        rank = next((piece.removeprefix("q=") for piece in parameters if piece.startswith("q=")), "1")
        weight = float(rank) if rank.replace(".", "", 1).isdecimal() and rank.isascii() else 0.0
        if media in TYPES and weight > best:
            best, form = weight, TYPES[media]
    return form
