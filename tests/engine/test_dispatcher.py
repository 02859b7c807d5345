"""The dispatcher: what starts, what is held and refused, in which order, and when it looks again."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import anyio
import pytest

from tower.core.states import Cause, FlightState, HeldReason, Outcome
from tower.engine import dispatcher, ground_stop, holds, stopping
from tower.engine.looking import explain_waiting
from tower.store import flights, queue

from .scripted import EPOCH, Scene, agent, later

pytestmark = pytest.mark.anyio


async def test_a_flight_starts_runs_and_lands(scene: Scene) -> None:
    async with scene.tower(agent("coder")) as tower:
        flight = await scene.send("coder")
        run = await scene.run(flight)
        assert (await scene.flight(flight)).state == "running"
        assert (run.number, run.attempt, run.cause, run.generation) == (1, 1, Cause.DISPATCH, 1)
        assert list(tower.live) == [run.id]
        await (await scene.keeper(flight)).exits(0)
        landed = await scene.flight(flight)
        assert (landed.state, landed.outcome) == ("landed", Outcome.SUCCEEDED)
        assert await scene.story(flight) == [
            "flight.queued",
            "run.claimed",
            "run.started",
            "run.ended",
            "flight.landed",
        ]
        assert tower.live == {}
        assert (await scene.itinerary(flight)).runs_started == 1


async def test_the_more_urgent_goes_first_then_the_older_and_the_rest_wait_for_a_slot(scene: Scene) -> None:
    async with scene.tower(agent("coder"), max_concurrent_runs=1, is_dispatching=False) as tower:
        old = await scene.send("coder")
        await later(1)
        young = await scene.send("coder")
        urgent = await scene.send("coder", priority=5)
        await scene.dispatch()
        started = []
        for _ in range(3):
            (live,) = tower.live.values()
            started += live.run.flights
            await scene.keepers.started[live.run.id].exits(0)
        assert started == [urgent, old, young]


@pytest.mark.parametrize(
    ("change", "reason", "words"),
    [
        ({"agents": {}}, HeldReason.AGENT, "not in the configuration"),
        ({"agents": {"coder": agent("coder", enabled=False)}}, HeldReason.AGENT, "disabled"),
    ],
)
async def test_a_flight_of_an_agent_that_went_away_is_held(
    scene: Scene, change: dict[str, object], reason: HeldReason, words: str
) -> None:
    async with scene.tower(agent("coder"), is_dispatching=False) as tower:
        flight = await scene.send("coder")
        tower.factory = replace(tower.factory, **change)
        await scene.dispatch()
        held = await scene.flight(flight)
        assert (held.state, held.held_reason) == ("held", reason)
        assert words in (held.reason or "")
        assert await scene.story(flight) == ["flight.queued", "flight.held"]


async def test_a_full_disk_holds_and_nothing_is_started(scene: Scene) -> None:
    async with scene.tower(agent("coder")) as tower:
        scene.free = 0
        flight = await scene.send("coder")
        assert (await scene.flight(flight)).held_reason == HeldReason.DISK
        assert tower.live == {}


async def test_a_chain_that_had_all_its_runs_is_refused_and_says_so(scene: Scene) -> None:
    async with scene.tower(agent("coder"), agent("tester"), routes=["coder -> tester"], max_runs=1):
        flight = await scene.send("coder")
        second = await scene.send("tester", run=await scene.run(flight))
        refused = await scene.flight(second)
        assert (refused.state, refused.outcome) == ("refused", Outcome.REFUSED)
        assert "had its one run;" in (refused.reason or "")
        assert (await scene.story(second))[-1] == "flight.refused"


async def test_a_flight_starts_when_it_falls_due_and_not_before(scene: Scene) -> None:
    async with scene.tower(agent("coder")):
        flight = await scene.send("coder", not_before=EPOCH + 3600.5)
        await later(3600)
        assert (await scene.flight(flight)).state == "queued"
        await later(0.5)
        assert (await scene.flight(flight)).state == "running"
        assert (await scene.run(flight)).claimed_at == pytest.approx(EPOCH + 3600.5)


async def test_flights_that_are_not_due_stand_in_nobodys_way(scene: Scene) -> None:
    async with scene.tower(agent("coder")):
        for _ in range(queue.DUE_AT_ONCE + 1):
            await scene.send("coder", not_before=EPOCH + 3600)
        await later(1)
        due = await scene.send("coder")
        assert (await scene.flight(due)).state == "running"


async def test_signs_of_life_come_at_the_promised_pace_even_when_nothing_happens(scene: Scene) -> None:
    async with scene.tower(agent("coder"), is_dispatching=False) as tower:
        seen: list[float] = []
        tower.tasks.start_soon(
            partial(dispatcher.dispatch, tower, alive=lambda: seen.append(anyio.current_time()), every=20)
        )
        await later(99)
        assert seen == [0, 20, 40, 60, 80]


async def test_a_claim_that_the_store_refuses_is_tried_again(scene: Scene) -> None:
    async with scene.tower(agent("coder"), is_dispatching=False) as tower:
        flight = await scene.send("coder")
        with scene.full_disk():
            await scene.dispatch()
            await later(10)
            assert (await scene.flight(flight)).state == "queued"
            assert (tower.live, scene.keepers.started) == ({}, {})
        await later(dispatcher.RETRY_SEC)
        assert (await scene.flight(flight)).state == "running"
        assert len(await scene.runs(flight)) == 1


async def test_what_turns_out_to_be_held_gives_its_slot_to_the_next_at_once(scene: Scene) -> None:
    too_much = agent("thinker", context_budget=1)
    async with scene.tower(too_much, agent("coder"), max_concurrent_runs=1, is_dispatching=False):
        held = await scene.send("thinker")
        flight = await scene.send("coder")
        await scene.dispatch()
        assert (await scene.flight(held)).held_reason == HeldReason.OVER_BUDGET
        assert (await scene.flight(flight)).state == "running"


async def test_a_flight_cancelled_between_look_and_claim_is_passed_over(scene: Scene) -> None:
    async with scene.tower(agent("coder"), max_concurrent_runs=1, is_dispatching=False) as tower:
        gone, stays = await scene.send("coder"), await scene.send("coder")

        async def cancel() -> None:
            await tower.store.write(lambda connection: flights.move(connection, gone, FlightState.CANCELLED))

        scene.meanwhile(cancel)
        await scene.dispatch()
        assert (await scene.flight(gone)).state == "cancelled"
        assert await scene.runs(gone) == []
        assert (await scene.flight(stays)).state == "running"
        assert len(tower.live) == 1


async def test_an_agent_that_is_removed_between_look_and_claim_takes_nobody_down(scene: Scene) -> None:
    async with scene.tower(agent("coder"), agent("tester"), is_dispatching=False) as tower:
        first, second = await scene.send("coder"), await scene.send("tester")

        async def reload() -> None:
            tower.factory = scene.factory()
            tower.wake()

        scene.meanwhile(reload)
        await scene.dispatch()
        # They were looked at before the edit: the first one's agent is the one that it began with.
        assert {(await scene.flight(one)).state for one in (first, second)} == {"running"}


async def test_a_hold_that_an_edit_has_mended_meanwhile_is_not_carried_out(scene: Scene) -> None:
    async with scene.tower(agent("coder"), agent("tester", enabled=False), is_dispatching=False) as tower:
        await scene.send("coder")
        mended = replace(tower.factory, agents=tower.factory.agents | {"tester": agent("tester")})
        tower.factory = replace(tower.factory, agents=tower.factory.agents | {"tester": agent("tester")})
        flight = await scene.send("tester")
        tower.factory = replace(mended, agents=mended.agents | {"tester": agent("tester", enabled=False)})

        async def reload() -> None:
            tower.factory = mended
            await holds.release(tower, *holds.BY_CONFIGURATION)
            tower.wake()

        scene.meanwhile(reload)
        await scene.dispatch()
        assert (await scene.flight(flight)).state == "running"


@pytest.mark.parametrize("how", ["ground stop", "stopping"])
async def test_what_is_claimed_while_everything_is_told_to_end_does_not_start(scene: Scene, how: str) -> None:
    async with scene.tower(agent("coder"), is_dispatching=False, also=[ground_stop.watch]) as tower:
        flight = await scene.send("coder")

        async def end_everything() -> None:
            if how == "ground stop":
                await ground_stop.engage(tower, by="ann", why="smoke")
            else:
                await stopping.stop_all(tower)

        scene.meanwhile(end_everything)
        await scene.dispatch()
        assert scene.keepers.started == {}
        assert tower.live == {}
        assert (await scene.flight(flight)).state == ("held" if how == "ground stop" else "queued")
        assert (await scene.flight(flight)).attempt == 1
        assert (await scene.itinerary(flight)).runs_started == 0


async def test_the_queue_explains_itself(scene: Scene) -> None:
    async with scene.tower(agent("coder"), agent("tester"), max_concurrent_runs=1) as tower:
        await scene.send("coder")
        waits, later = await scene.send("tester"), await scene.send("tester", not_before=EPOCH + 60)
        words = {flight.id: why or "" for flight, why in await explain_waiting(tower, 10)}
        assert words.keys() == {waits, later}
        assert "all 1 slots are taken" in words[waits]
        assert words[later] == "not before 60 s from now"
