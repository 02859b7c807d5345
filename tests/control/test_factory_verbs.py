"""The factory as a whole: whether it is well, what happened in it, and its switches."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from functools import partial
from typing import Any, cast

import anyio
import pytest
from engine.scripted import ANN, Scene, agent, later

from tower.config.problems import Problem
from tower.control import Control
from tower.control.factory import EVENTS_AT_ONCE
from tower.core.consequences import Change, Consequence
from tower.core.errors import NotFoundError
from tower.engine import ground_stop
from tower.engine.reload import Compared, Reloaded
from tower.engine.tower import GroundStop, Tower
from tower.store import events

from .verbs import verbs

pytestmark = pytest.mark.anyio

PROBLEM = Problem(file="f", line=1, column=2, key="a.b", sentence="is no number", hint="give one")


async def status(scene: Scene) -> dict[str, Any]:
    return await verbs(scene).factory.status(ANN)


async def test_one_screen_of_truth(scene: Scene) -> None:
    async with scene.tower(agent("coder"), agent("idler", enabled=False), max_concurrent_runs=1):
        flight = await scene.send("coder")
        await scene.send("coder")
        seen = await status(scene)
        assert (seen["state"], seen["well"], seen["slots"]) == ("running", True, {"used": 1, "of": 1})
        assert seen["queue"] == {"queued": 1, "held": 0, "parked": 0, "halted": 0}
        assert [run["flights"] for run in seen["runs"]] == [[flight]]
        assert [one["name"] for one in seen["agents"]] == ["coder", "idler"]
        assert (seen["ground_stop"], seen["holds"], seen["problems"]) == (None, [], [])
        assert seen["generation"]["number"] == 1
        assert seen["started_at"] == "2027-01-15T08:00:00.000Z"


def engaged(tower: Tower) -> None:
    tower.ground_stop = GroundStop(since=0, by="ann", why="smoke")


def refused(tower: Tower) -> None:
    tower.problems = (PROBLEM,)


@pytest.mark.parametrize("trouble", [engaged, refused, lambda tower: tower.ballast.throw_off()])
async def test_it_is_not_well_while_something_wants_a_person(scene: Scene, trouble: Callable[[Tower], None]) -> None:
    async with scene.tower(agent("coder")) as tower:
        assert (await status(scene))["well"] is True
        trouble(tower)
        assert (await status(scene))["well"] is False


async def test_it_is_not_well_while_a_flight_is_held(scene: Scene) -> None:
    async with scene.tower(agent("thinker", context_budget=1)):
        flight = await scene.send("thinker")
        seen = await status(scene)
        assert seen["well"] is False
        assert [held["id"] for held in seen["holds"]] == [flight]


async def test_what_does_not_stop_the_work_is_a_warning_and_leaves_it_well(scene: Scene) -> None:
    async with scene.tower(agent("coder")) as tower:
        tower.warnings = ("agents.x is never reached",)
        tower.watch_problem = "edits are seen late"
        tower.needs_restart = ("layover.socket",)
        seen = await status(scene)
        assert seen["well"] is True
        assert seen["warnings"] == ["agents.x is never reached", "edits are seen late"]
        assert seen["needs_restart"] == ["layover.socket"]


@pytest.mark.parametrize("state", ["draining", "stopping"])
async def test_its_state_is_named(scene: Scene, state: str) -> None:
    async with scene.tower(agent("coder")) as tower:
        setattr(tower, state, True)
        assert (await status(scene))["state"] == state


async def followed(of: Control, after: int, count: int) -> list[dict[str, Any]]:
    """So many events that follow a number."""
    found: list[dict[str, Any]] = []
    stream = cast("AsyncIterator[dict[str, Any]]", of.factory.events(ANN, after))
    async with aclosing(stream):  # type: ignore[type-var]
        with anyio.fail_after(60):
            while len(found) < count:
                found.append(await anext(stream))
    return found


async def test_events_come_in_order_without_gap_and_can_be_resumed_anywhere(scene: Scene) -> None:
    async with scene.tower(agent("coder")):
        flight = await scene.send("coder")
        await (await scene.keeper(flight)).exits(0)
        everything = [event.seq for event in await scene.events()]
        assert len(everything) == 5
        for after in (0, *everything[:-1]):
            rest = [seq for seq in everything if seq > after]
            assert [event["seq"] for event in await followed(verbs(scene), after, len(rest))] == rest


async def test_who_follows_hears_at_once_of_what_happens(scene: Scene) -> None:
    async with scene.tower(agent("coder")) as tower:
        heard: list[tuple[str, float]] = []

        async def follow() -> None:
            async for event in verbs(scene).factory.events(ANN, 0):
                heard.append((event["type"], anyio.current_time()))  # noqa: PERF401 (it never ends)

        tower.tasks.start_soon(follow)
        await later(10)
        assert heard == []
        flight = await scene.send("coder")
        await later(5)
        await (await scene.keeper(flight)).exits(0)
        assert heard == [
            ("flight.queued", 10),
            ("run.claimed", 10),
            ("run.started", 10),
            ("run.ended", 15),
            ("flight.landed", 15),
        ]


async def test_more_events_than_are_read_at_once_all_come(scene: Scene) -> None:
    async with scene.tower(agent("coder")) as tower:
        many = 2 * EVENTS_AT_ONCE + 1

        def fill(connection: Any) -> None:
            for number in range(many):
                events.append(connection, tower.event("test.filled", number=number))

        await tower.store.write(fill)
        found = await followed(verbs(scene), 0, many)
        assert [event["data"]["number"] for event in found] == list(range(many))


async def test_an_id_is_found_whatever_it_names(scene: Scene) -> None:
    async with scene.tower(agent("coder")):
        flight = await scene.flight(await scene.send("coder"))
        find = partial(verbs(scene).factory.find, ANN)
        assert await find(flight.id) == {"kind": "flight", "id": flight.id}
        assert await find(flight.itinerary) == {"kind": "itinerary", "id": flight.itinerary}
        run = (await scene.run(flight.id)).id
        assert await find(run[-6:]) == {"kind": "run", "id": run}


async def test_a_prompt_is_shown_and_nothing_is_started(scene: Scene) -> None:
    async with scene.tower(agent("coder")):
        prompt = partial(verbs(scene).factory.prompt, ANN)
        assert (await prompt("coder", "do it")).rstrip().endswith("do it")
        with pytest.raises(NotFoundError, match="cannot find an agent called 'codr'"):
            await prompt("codr", "do it")
        assert scene.keepers.plans == []
        assert [one["name"] for one in (await verbs(scene).factory.agents(ANN))["agents"]] == ["coder"]


async def test_a_drain_holds_starts_back_until_it_is_over_and_is_told_once(scene: Scene) -> None:
    async with scene.tower(agent("coder")):
        drain = partial(verbs(scene).factory.drain, ANN)
        for _ in range(2):
            assert (await drain(on=True))["state"] == "draining"
        flight = await scene.send("coder")
        assert (await scene.flight(flight)).state == "queued"
        assert (await drain(on=False))["state"] == "running"
        await later(1)
        assert (await scene.flight(flight)).state == "running"
        types = [event.type for event in await scene.events()]
        assert (types.count("tower.draining"), types.count("tower.resumed")) == (1, 1)


async def test_the_ground_stop_is_engaged_and_released_by_verb(scene: Scene) -> None:
    async with scene.tower(agent("coder")) as tower:
        seen = await verbs(scene).factory.ground_stop_on(ANN, "smoke")
        assert seen["ground_stop"] == {"since": "2027-01-15T08:00:00.000Z", "by": "ann", "why": "smoke"}
        assert ground_stop.read(tower) is not None
        seen = await verbs(scene).factory.ground_stop_off(ANN)
        assert (seen["ground_stop"], seen["well"]) == (None, True)


async def test_a_reload_says_what_it_led_to(scene: Scene) -> None:
    async with scene.tower(agent("coder")):
        looked = Reloaded(changes=("agents.x: added",), problems=(PROBLEM,), needs_restart=("layover.socket",))
        seen = await verbs(scene, looked).factory.reload(ANN)
        assert (seen["changed"], seen["changes"], seen["generation"]) == (True, ["agents.x: added"], 1)
        assert seen["problems"][0]["sentence"] == "is no number"
        assert seen["needs_restart"] == ["layover.socket"]
        assert (await verbs(scene).factory.reload(ANN))["changed"] is False


async def test_a_comparison_counts_what_would_be_held(scene: Scene) -> None:
    gone = Consequence(agent="coder", change=Change.REMOVED, process=None)
    compared = Compared(changes=("agents.coder: removed",), problems=(PROBLEM,), consequences=(gone,))
    async with scene.tower(agent("coder"), agent("idler"), max_concurrent_runs=1):
        for _ in range(3):
            await scene.send("coder")
        answer = await verbs(scene, compared=compared).factory.compare(ANN)
        assert answer["agents"] == [{"name": "coder", "change": "removed", "process": None, "held": 2}]
        assert (answer["generation"], answer["changes"], answer["needs_restart"]) == (1, ["agents.coder: removed"], [])
        assert [it["key"] for it in answer["problems"]] == ["a.b"]


async def test_an_agent_is_shown_with_where_its_values_came_from(scene: Scene) -> None:
    async with scene.tower(agent("coder", model="big", origins={"model": "defaults"})):
        shown = await verbs(scene).factory.agent(ANN, "coder")
        assert (shown["name"], shown["paused_by"], shown["process"]) == ("coder", None, None)
        assert shown["values"]["model"] == {"value": "big", "origin": "defaults"}
        assert shown["values"]["effort"] == {"value": None, "origin": "built in"}
        assert "it can send to nobody" in shown["enforced"]
        assert (shown["variables"], shown["ways_in"]) == ([], ["person"])
        with pytest.raises(NotFoundError):
            await verbs(scene).factory.agent(ANN, "nobody")
