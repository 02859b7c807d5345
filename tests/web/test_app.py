"""The description of the API, and that answers look as it says."""

from typing import Any

import pytest
from pydantic import BaseModel

from tower.control import views
from tower.core.factory_map import document, factory_map
from tower.web import shapes
from tower.web.route_map import Graph

from .conftest import Served
from .fakes import AGENT, FACTORY, FLIGHT, FakeVerbs, itinerary_view, run_view, status_view, story_view


@pytest.fixture
def schema(door: Served) -> dict[str, Any]:
    answer = door.ask("GET", "/openapi.json")
    assert answer.status == 200
    described: dict[str, Any] = answer.json
    return described


def operations(schema: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        f"{method.upper()} {path}": operation
        for path, methods in schema["paths"].items()
        for method, operation in methods.items()
    }


def test_every_path_is_described(schema: dict[str, Any]) -> None:
    assert set(operations(schema)) == {
        "GET /health",
        "POST /recover-halted",
        "POST /flights/{identity}/retry",
        "GET /status",
        "GET /summary",
        "GET /costs",
        "POST /itineraries/{identity}/refuel",
        "POST /flights/{identity}/approve",
        "POST /flights/{identity}/reject",
        "POST /runners/{name}/reset",
        "GET /find/{identity}",
        "POST /flights",
        "GET /flights",
        "GET /flights/{identity}",
        "DELETE /flights/{identity}",
        "GET /itineraries",
        "GET /itineraries/{identity}",
        "POST /itineraries/{identity}/cancel",
        "POST /itineraries/{identity}/release",
        "GET /runs",
        "GET /runs/{identity}",
        "POST /runs/{identity}/cancel",
        "POST /runs/{identity}/recover",
        "GET /runs/{identity}/log",
        "GET /runs/{identity}/diff",
        "GET /runs/{identity}/payload",
        "GET /runs/{identity}/answer",
        "GET /runs/{identity}/report",
        "GET /help",
        "GET /help/{identity}",
        "POST /help/{identity}/resolve",
        "GET /agents",
        "GET /agents/{name}",
        "GET /pipelines",
        "GET /graph",
        "GET /agents/{name}/prompt",
        "POST /agents/{name}/restart",
        "POST /agents/{name}/pause",
        "POST /agents/{name}/resume",
        "GET /worktrees",
        "DELETE /worktrees/{identity}",
        "POST /worktrees/{identity}/rescue",
        "GET /events",
        "GET /config/diff",
        "POST /reload",
        "POST /ground-stop",
        "DELETE /ground-stop",
        "POST /drain",
        "DELETE /drain",
    }


def test_problems_are_described_everywhere(schema: dict[str, Any]) -> None:
    for name, operation in operations(schema).items():
        assert operation["responses"]["default"] == {"$ref": "#/components/responses/Problem"}, name
        assert "422" not in operation["responses"], name
    problem = schema["components"]["responses"]["Problem"]["content"]["application/problem+json"]
    assert problem["schema"] == {"$ref": "#/components/schemas/ProblemDocument"}
    described = schema["components"]["schemas"]["ProblemDocument"]
    assert set(described["properties"]) == {"type", "title", "status", "detail", "hint", "code"}
    assert not {"HTTPValidationError", "ValidationError"} & set(schema["components"]["schemas"])


def test_every_reference_leads_somewhere(schema: dict[str, Any]) -> None:
    def walk(value: Any) -> list[str]:
        if isinstance(value, dict):
            here = [value["$ref"]] if "$ref" in value else []
            return here + [found for one in value.values() for found in walk(one)]
        return [found for one in value for found in walk(one)] if isinstance(value, list) else []

    references = walk(schema)
    assert references
    for reference in references:
        at: Any = schema
        for step in reference.removeprefix("#/").split("/"):
            at = at[step]


def test_good_answers_are_described(schema: dict[str, Any]) -> None:
    for name, operation in operations(schema).items():
        good = {status: one for status, one in operation["responses"].items() if status.startswith("2")}
        assert len(good) == 1, name
        ((_, described),) = good.items()
        assert described["content"], name


def test_nothing_is_loaded_from_elsewhere(door: Served) -> None:
    for path in ("/docs", "/redoc", "/docs/oauth2-redirect"):
        assert door.ask("GET", path).status == 404
    assert b"cdn" not in door.ask("GET", "/openapi.json").body


@pytest.mark.parametrize(
    ("shape", "answer"),
    [
        (shapes.Flight, views.flight(FLIGHT)),
        (shapes.Flight, views.flight(FLIGHT, waits_for="a slot")),
        (shapes.Run, run_view()),
        (shapes.Itinerary, itinerary_view()),
        (shapes.Story, story_view()),
        (shapes.Agent, views.agent(AGENT)),
        (shapes.Status, status_view()),
        (Graph, document(factory_map(FACTORY))),
    ],
)
def test_shapes_fit_what_control_answers(shape: type[BaseModel], answer: dict[str, Any]) -> None:
    shape.model_validate(answer)
    required = {field.alias or name for name, field in shape.model_fields.items() if field.is_required()}
    assert required <= set(answer)


@pytest.mark.anyio
async def test_reload_fits_its_shape() -> None:
    shapes.Reloaded.model_validate(await FakeVerbs().reload(None))  # type: ignore[arg-type]
    shapes.AgentRecord.model_validate(await FakeVerbs().agent(None, "coder"))  # type: ignore[arg-type]
    shapes.Compared.model_validate(await FakeVerbs().compare(None))  # type: ignore[arg-type]
