"""The application: resources behind the gate, errors as problem documents, a description of it all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import anyio
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.routing import Route
from starlette.types import ASGIApp

from tower import __version__
from tower.control import Control
from tower.core.addresses import MCP_PATH
from tower.web import problems
from tower.web.access import Access
from tower.web.gate import Gate, OverTcp
from tower.web.resources import (
    agents,
    events,
    flights,
    graph,
    help,
    itineraries,
    money,
    operation,
    pipelines,
    runs,
    status,
    worktrees,
)

MAX_BODY_BYTES: Final = 1 << 20
"""The default of `layover.max_body_bytes`."""

RESOURCES: Final = (
    status,
    flights,
    itineraries,
    runs,
    help,
    agents,
    pipelines,
    graph,
    worktrees,
    events,
    money,
    operation,
)


def create_app(
    control: Control,
    access: Access,
    *,
    max_body_bytes: Callable[[], int] = lambda: MAX_BODY_BYTES,
    over_tcp: Callable[[], OverTcp] = OverTcp,
    door: ASGIApp | None = None,
) -> FastAPI:
    """The API over the verbs of `control`; `door` is what stands at `/mcp`.

    `max_body_bytes` is asked at each request for the greatest body of a flight, in bytes, and `over_tcp` for what
    holds over TCP: a reload may change both.
    """
    app = FastAPI(
        title="Tower",
        version=__version__,
        description="The control socket of a dispatcher for headless coding agents.",
        openapi_url="/openapi.json",
        # The pages that would show it load their scripts from elsewhere.
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.control = control
    app.state.access = access
    app.state.closing = anyio.Event()
    for resource in RESOURCES:
        app.include_router(resource.router)
    if door is not None:
        # In front: of all that is asked most, and matching walks through the rest.
        app.router.routes.insert(0, Route(MCP_PATH, door, include_in_schema=False))
    problems.install(app)
    app.add_middleware(Gate, access=access, max_body_bytes=max_body_bytes, over_tcp=over_tcp)
    app.openapi = lambda: _describe(app)  # type: ignore[method-assign]
    return app


def _describe(app: FastAPI) -> dict[str, Any]:
    """The schema, with problem documents for every answer that is not a good one."""
    if app.openapi_schema is None:
        schema = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        components = schema["components"]
        for name in ("HTTPValidationError", "ValidationError"):
            components["schemas"].pop(name, None)
        components["schemas"]["ProblemDocument"] = problems.Problem.model_json_schema()
        content = {problems.MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDocument"}}}
        components["responses"] = {"Problem": {"description": "why it was not done", "content": content}}
        for path in schema["paths"].values():
            for operation_ in path.values():
                operation_["responses"].pop("422", None)
                operation_["responses"]["default"] = {"$ref": "#/components/responses/Problem"}
        app.openapi_schema = schema
    return app.openapi_schema
