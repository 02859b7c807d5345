"""Chains: their story, waiting for news of it, and ending them."""

from __future__ import annotations

import pytest
from engine.scripted import ANN, EPOCH, Scene, agent, later

from tower.core.errors import NotFoundError
from tower.store import events

from .verbs import ask, verbs

pytestmark = pytest.mark.anyio

PAIR = (agent("coder"), agent("tester"))


async def test_a_story_has_its_flights_and_runs_in_order_and_what_they_cost(scene: Scene) -> None:
    async with scene.tower(*PAIR, routes=["coder -> tester"]):
        first = await scene.send("coder", name="tonight")
        await later(1)
        second = await scene.send("tester", run=await scene.run(first))
        keeper = await scene.keeper(first)
        await keeper.reports(cost_usd=1.2)
        await keeper.exits(0)
        await (await scene.keeper(second)).exits(0)
        chain = (await scene.flight(first)).itinerary
        story = await verbs(scene).itineraries.show(ANN, chain)
        assert (story["name"], story["state"], story["runs_started"]) == ("tonight", "finished", 2)
        assert [flight["id"] for flight in story["flights"]] == [first, second]
        assert [run["agent"] for run in story["runs"]] == ["coder", "tester"]
        assert (story["cost"], story["cost_usd"]) == ("$1.20+", 1.2)
        assert story["seq"] == await scene.read(events.last_seq, itinerary=chain)


async def test_with_wait_it_answers_with_the_first_news_and_not_with_that_of_others(scene: Scene) -> None:
    async with scene.tower(*PAIR):
        flight = await scene.send("coder")
        chain = (await scene.flight(flight)).itinerary
        show = verbs(scene).itineraries.show
        seq = (await show(ANN, chain))["seq"]
        at_once = await ask(scene, show(ANN, chain, wait=30, after=seq - 1))
        assert at_once.given is not None
        held_back = await ask(scene, show(ANN, chain, wait=30, after=seq))
        await scene.send("tester")
        await later(10)
        assert held_back.given is None
        await (await scene.keeper(flight)).exits(0)
        assert held_back.given is not None
        assert held_back.given["seq"] > seq
        assert held_back.given["state"] == "finished"
        assert held_back.at == 10


async def test_with_wait_and_no_news_it_answers_when_the_time_is_up(scene: Scene) -> None:
    async with scene.tower(*PAIR):
        chain = (await scene.flight(await scene.send("coder"))).itinerary
        show = verbs(scene).itineraries.show
        seq = (await show(ANN, chain))["seq"]
        answer = await ask(scene, show(ANN, chain, wait=30, after=seq))
        await later(29)
        assert answer.given is None
        await later(1)
        assert answer.given is not None
        assert (answer.given["seq"], answer.at) == (seq, 30)


async def test_the_newest_come_first(scene: Scene) -> None:
    async with scene.tower(*PAIR):
        for number in range(3):
            await scene.send("coder", name=f"n{number}")
        listed = await verbs(scene).itineraries.listing(ANN, limit=2)
        assert [one["name"] for one in listed["itineraries"]] == ["n2", "n1"]
        assert {one["state"] for one in listed["itineraries"]} == {"working"}


async def test_cancelled_it_ends_with_all_that_waits_and_runs_and_others_go_on(scene: Scene) -> None:
    async with scene.tower(*PAIR, routes=["coder -> tester"]) as tower:
        first, other = await scene.send("coder"), await scene.send("coder")
        run = await scene.run(first)
        runs_too = await scene.send("tester", run=run)
        tower.draining = True
        waits = await scene.send("tester", "later", run=run)
        await verbs(scene).itineraries.cancel(ANN, run.itinerary)
        await later(1)
        assert {(await scene.flight(flight)).state for flight in (first, runs_too, waits)} == {"cancelled"}
        assert (await scene.flight(waits)).reason == "cancelled by ann"
        assert (await scene.flight(other)).state == "running"
        assert (await verbs(scene).itineraries.show(ANN, run.itinerary))["state"] == "cancelled"
        assert (await scene.itinerary(first)).cancelled_at == EPOCH


async def test_a_run_that_cannot_be_asked_keeps_nobody_else_from_being_asked(scene: Scene) -> None:
    async with scene.tower(*PAIR, routes=["coder -> tester"]):
        first = await scene.send("coder")
        second = await scene.send("tester", run=await scene.run(first))
        (await scene.keeper(first)).links[0].protocol = 99
        await verbs(scene).itineraries.cancel(ANN, (await scene.flight(first)).itinerary)
        assert (await scene.flight(second)).state in ("running", "cancelled")
        await later(1)
        assert (await scene.flight(second)).state == "cancelled"


async def test_the_end_of_an_id_is_enough_and_another_kinds_id_is_none(scene: Scene) -> None:
    async with scene.tower(*PAIR):
        flight = await scene.flight(await scene.send("coder"))
        show = verbs(scene).itineraries.show
        assert (await show(ANN, flight.itinerary[-6:].lower()))["id"] == flight.itinerary
        with pytest.raises(NotFoundError):
            await show(ANN, flight.id)
