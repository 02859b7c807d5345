"""Pipelines: what a chain carries of its way in, and for how long it holds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from engine.scripted import ANN, TRUE, Scene, agent

from tower.control import sending
from tower.core.choices import Choice
from tower.core.errors import ConflictError, InvalidError, NotFoundError, RefusedError, TowerError
from tower.core.pipelines import Flag, Pipeline
from tower.core.routes import Route, RouteMode
from tower.core.states import FlightState, HeldReason

from .verbs import verbs

pytestmark = pytest.mark.anyio

CODER, TESTER = agent("coder", entry=False, model="small", args=("-a",)), agent("tester", entry=False)
BUILD = Pipeline(
    name="build",
    entry="coder",
    priority=5,
    body="Do the next thing.",
    flags={"deep": Flag(), "wide": Flag(default=True)},
    choices={"coder": Choice(values={"model": "large"}, args=("-b",))},
)
CHECK = Pipeline(name="check", entry="coder")
EDGE = Route(sender="coder", receiver="tester", pipelines=frozenset({"build"}))
FACTORY: dict[str, Any] = {"pipelines": [BUILD, CHECK], "routes": [EDGE]}


async def test_a_chain_carries_its_pipeline_and_a_value_for_every_flag(scene: Scene) -> None:
    async with scene.tower(CODER, TESTER, **FACTORY):
        flight = await scene.flight(await scene.send(None, None, pipeline="build", flags={"deep": True}))
        chain = await scene.itinerary(flight.id)
        assert (flight.receiver, flight.body, flight.priority) == ("coder", "Do the next thing.", 5)
        assert (chain.pipeline, chain.flags) == ("build", {"deep": True, "wide": True})
        said = await scene.flight(await scene.send(None, "this", pipeline="build", priority=-1))
        assert (said.body, said.priority) == ("this", -1)


@pytest.mark.parametrize(
    ("request_", "error", "code"),
    [
        ({"pipeline": "biuld"}, NotFoundError, "unknown-pipeline"),
        ({"pipeline": "check"}, InvalidError, "empty-body"),
        ({"pipeline": "build", "flags": {"depe": True}}, InvalidError, "unknown-flag"),
        ({"to": "coder", "body": "x", "flags": {"deep": True}}, InvalidError, "unknown-flag"),
        ({"to": "coder", "pipeline": "build"}, InvalidError, "no-address"),
        ({"body": "x"}, InvalidError, "no-address"),
        ({"to": "coder", "body": "x"}, RefusedError, "no-entry"),
    ],
)
async def test_what_is_no_way_in_is_refused(
    scene: Scene, request_: dict[str, Any], error: type[TowerError], code: str
) -> None:
    async with scene.tower(CODER, TESTER, is_dispatching=False, **FACTORY):
        with pytest.raises(error) as refused:
            await sending.send(scene.now, ANN, sending.Request(**request_))
        assert refused.value.code == code


async def test_a_key_stands_for_the_way_in_and_the_flags_as_well(scene: Scene) -> None:
    async with scene.tower(CODER, TESTER, is_dispatching=False, **FACTORY):
        asked = sending.Request(pipeline="build", body="x", key="k")
        first = await sending.send(scene.now, ANN, asked)
        again = await sending.send(scene.now, ANN, asked)
        assert (again.duplicate, again.flight.id) == (True, first.flight.id)
        others = ({"flags": {"deep": True}}, {"pipeline": "check"}, {"choices": {"coder": Choice(args=("-c",))}})
        for other in (replace(asked, **changed) for changed in others):
            with pytest.raises(ConflictError, match="another way in, or for other flags or choices"):
                await sending.send(scene.now, ANN, other)


async def test_a_run_sends_along_the_routes_of_its_pipeline_and_into_none(scene: Scene) -> None:
    async with scene.tower(CODER, TESTER, **FACTORY):
        run = await scene.run(await scene.send(None, pipeline="build"))
        sent = await scene.flight(await scene.send("tester", run=run))
        assert (sent.itinerary, sent.priority) == (run.itinerary, 5)
        with pytest.raises(RefusedError) as by_run:
            await scene.send(None, pipeline="build", run=run)
        assert by_run.value.code == "pipeline-by-run"
        other = await scene.run(await scene.send(None, pipeline="check"))
        with pytest.raises(RefusedError) as out_of_scope:
            await scene.send("tester", run=other)
        assert out_of_scope.value.code == "no-route"


async def test_a_spawned_chain_keeps_pipeline_and_flags(scene: Scene) -> None:
    async with scene.tower(CODER, TESTER, pipelines=[BUILD], routes=[replace(EDGE, mode=RouteMode.SPAWN)]):
        run = await scene.run(await scene.send(None, pipeline="build", flags={"deep": True}))
        spawned = await scene.itinerary(await scene.send("tester", run=run))
        assert (spawned.parent, spawned.pipeline) == (run.itinerary, "build")
        assert spawned.flags == {"deep": True, "wide": True}


async def test_what_a_pipeline_asks_of_an_agent_holds_for_its_chains_alone(scene: Scene) -> None:
    mine = replace(TRUE, name="mine", kind="command", command=("true", "{model}"))
    async with scene.tower(replace(CODER, runner="mine"), TESTER, runners=[mine], **FACTORY):
        build = await scene.send(None, pipeline="build")
        check = await scene.send(None, pipeline="check")
        argvs = {(await scene.keeper(flight)).plan.argv[1:] for flight in (build, check)}
        assert argvs == {("large", "-a", "-b"), ("small", "-a")}
        assert (await scene.run(build)).model_asked == "large"


async def test_what_is_chosen_for_a_chain_beats_its_pipeline_and_holds_for_all_of_it(scene: Scene) -> None:
    mine = replace(TRUE, name="mine", kind="command", command=("true", "{model}", "{context}"))
    coder, tester = (replace(it, runner="mine", context="200k") for it in (CODER, TESTER))
    choices = {
        "coder": Choice(values={"model": "huge", "context": None}, args=("-c",)),
        "tester": Choice(values={"model": "tiny"}),
    }
    spawning = replace(EDGE, mode=RouteMode.SPAWN)
    async with scene.tower(coder, tester, runners=[mine], pipelines=[BUILD], routes=[spawning]):
        first = await scene.send(None, pipeline="build", choices=choices)
        assert (await scene.keeper(first)).plan.argv[1:] == ("huge", "-a", "-b", "-c")
        assert (await scene.itinerary(first)).choices == choices
        below = await scene.send("tester", run=await scene.run(first))
        assert (await scene.keeper(below)).plan.argv[1:] == ("tiny", "200k")
        assert (await scene.itinerary(below)).choices == choices
        plain = await scene.send(None, pipeline="build")
        assert (await scene.keeper(plain)).plan.argv[1:] == ("large", "200k", "-a", "-b")


@pytest.mark.parametrize(
    ("choices", "error", "code"),
    [
        ({"codre": Choice()}, NotFoundError, "unknown-agent"),
        ({"keeper": Choice(values={"model": "large"})}, InvalidError, "choice-for-resident"),
        ({"coder": Choice(args=("--model={modle}",))}, InvalidError, "bad-placeholder"),
        ({"coder": Choice(args=("{args}",))}, InvalidError, "bad-placeholder"),
    ],
)
async def test_what_cannot_have_an_effect_is_not_chosen(
    scene: Scene, choices: dict[str, Choice], error: type[TowerError], code: str
) -> None:
    async with scene.tower(CODER, agent("keeper", resident=True), is_dispatching=False, pipelines=[BUILD]):
        with pytest.raises(error) as refused:
            await sending.send(scene.now, ANN, sending.Request(pipeline="build", choices=choices))
        assert refused.value.code == code


async def test_no_run_chooses(scene: Scene) -> None:
    async with scene.tower(CODER, TESTER, **FACTORY):
        run = await scene.run(await scene.send(None, pipeline="build"))
        with pytest.raises(RefusedError) as refused:
            await scene.send("tester", run=run, choices={"tester": Choice(values={"model": "huge"})})
        assert refused.value.code == "choice-by-run"


async def test_an_agent_that_became_resident_is_what_it_is_for_every_chain(scene: Scene) -> None:
    async with scene.tower(agent("coder", model="small", resident=True)):
        factory = scene.now.factory
        assert factory.agent_in("coder", None, {"coder": Choice(values={"model": "huge"})}).model == "small"


async def test_a_chain_whose_pipeline_is_gone_is_held_and_says_so(scene: Scene) -> None:
    async with scene.tower(CODER, TESTER, is_dispatching=False, **FACTORY):
        flight = await scene.send(None, pipeline="build")
    async with scene.tower(CODER, TESTER, pipelines=[CHECK]):
        held = await scene.flight(flight)
        assert (held.state, held.held_reason) == (FlightState.HELD, HeldReason.AGENT)
        assert "add [pipelines.build]" in (held.reason or "")


async def test_pipelines_are_listed(scene: Scene) -> None:
    async with scene.tower(CODER, TESTER, is_dispatching=False, **FACTORY):
        (build, check) = (await verbs(scene).factory.pipelines(ANN))["pipelines"]
        assert build["flags"]["wide"] == {"default": True, "description": None}
        assert build["agents"] == {"coder": {"model": "large", "args": ["-b"]}}
        assert (check["name"], check["entry"], check["trigger"], check["body"]) == ("check", "coder", "manual", None)


async def test_the_map_of_a_pipeline_that_there_is_not_is_refused(scene: Scene) -> None:
    async with scene.tower(agent("coder")):
        assert (await verbs(scene).factory.mapped(ANN)).agents.keys() == {"coder"}
        with pytest.raises(NotFoundError) as refused:
            await verbs(scene).factory.mapped(ANN, "none")
        assert (refused.value.code, refused.value.hint) == ("unknown-pipeline", "there are: none")
