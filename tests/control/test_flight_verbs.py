"""Flights: what waits and what for, ending them, and doing them again."""

from __future__ import annotations

from functools import partial

import pytest
from engine.scripted import ANN, EPOCH, Scene, agent, later

from tower.control import sending
from tower.core.errors import ConflictError, NotFoundError
from tower.core.states import FlightState

from .verbs import verbs

pytestmark = pytest.mark.anyio


async def test_a_send_is_answered_with_its_flight_and_whether_it_was_there_already(scene: Scene) -> None:
    async with scene.tower(agent("coder")):
        send = partial(verbs(scene).flights.send, ANN)
        first = await send(sending.Request(to="coder", body="go", key="k"))
        assert first["flight"]["state"] == "queued"
        assert first["flight"]["sender"] == {"kind": "person", "name": "ann", "ref": None}
        assert first["itinerary"] == first["flight"]["itinerary"]
        assert first["duplicate"] is False
        again = await send(sending.Request(to="coder", body="go", key="k"))
        assert (again["duplicate"], again["flight"]["id"]) == (True, first["flight"]["id"])


async def test_what_waits_is_listed_oldest_first_each_with_what_for(scene: Scene) -> None:
    budget = agent("thinker", context_budget=1)
    async with scene.tower(agent("coder"), budget, max_concurrent_runs=1):
        await scene.send("coder")
        waits = await scene.send("coder")
        later_ = await scene.send("coder", not_before=EPOCH + 60)
        listing = partial(verbs(scene).flights.listing, ANN, waiting=True, state=None, limit=9)
        listed = (await listing(agent=None))["flights"]
        assert [flight["id"] for flight in listed] == [waits, later_]
        assert "all 1 slots are taken" in listed[0]["waits_for"]
        assert listed[1]["waits_for"] == "not before 60 s from now"
        assert (await listing(agent="thinker"))["flights"] == []


async def test_a_held_flight_says_what_it_is_held_for_and_when_it_is_looked_at_again(scene: Scene) -> None:
    async with scene.tower(agent("thinker", context_budget=1)):
        flight = await scene.send("thinker")
        view = await verbs(scene).flights.show(ANN, flight)
        assert (view["state"], view["held_reason"], view["release_at"]) == ("held", "over-budget", None)
        assert view["waits_for"] == view["reason"]
        assert view["runs"] == []


async def test_flights_are_listed_by_state_and_receiver_newest_first(scene: Scene) -> None:
    async with scene.tower(agent("coder"), agent("tester")):
        one, two, three = [await scene.send(to) for to in ("coder", "tester", "coder")]
        await (await scene.keeper(one)).exits(0)
        listing = partial(verbs(scene).flights.listing, ANN, waiting=False, limit=9)

        async def listed(state: FlightState | None, of: str | None) -> list[str]:
            return [flight["id"] for flight in (await listing(state=state, agent=of))["flights"]]

        assert await listed(None, None) == [three, two, one]
        assert await listed(FlightState.RUNNING, None) == [three, two]
        assert await listed(FlightState.RUNNING, "coder") == [three]


async def test_a_flight_is_shown_with_its_runs(scene: Scene) -> None:
    async with scene.tower(agent("coder"), max_concurrent_runs=1):
        flight, waits = await scene.send("coder"), await scene.send("coder")
        view = await verbs(scene).flights.show(ANN, flight[-6:])
        assert [run["id"] for run in view["runs"]] == [(await scene.run(flight)).id]
        assert "waits_for" not in view
        assert "slots are taken" in (await verbs(scene).flights.show(ANN, waits))["waits_for"]
        with pytest.raises(NotFoundError):
            await verbs(scene).flights.show(ANN, "flt_ZZZZ")


async def test_what_waits_is_cancelled_at_once_and_never_starts(scene: Scene) -> None:
    async with scene.tower(agent("coder"), max_concurrent_runs=1):
        runs, waits = await scene.send("coder"), await scene.send("coder")
        cancel = partial(verbs(scene).flights.cancel, ANN)
        view = await cancel(waits)
        assert (view["state"], view["outcome"], view["reason"]) == ("cancelled", "cancelled", "cancelled by ann")
        assert (await cancel(waits))["state"] == "cancelled"
        await (await scene.keeper(runs)).exits(0)
        await later(100)
        assert await scene.runs(waits) == []
        with pytest.raises(ConflictError, match=r"it is over \(landed\)"):
            await cancel(runs)


async def test_the_run_of_a_running_flight_is_asked_to_end(scene: Scene) -> None:
    async with scene.tower(agent("coder")):
        flight = await scene.send("coder")
        view = await verbs(scene).flights.cancel(ANN, flight)
        assert view["state"] == "running"  # it ends in its own time
        await later(1)
        assert (await scene.flight(flight)).state == "cancelled"


async def test_what_did_not_succeed_is_done_again_and_what_did_is_not(scene: Scene) -> None:
    async with scene.tower(agent("coder")):
        failed, done, runs = [await scene.send("coder") for _ in range(3)]
        await (await scene.keeper(failed)).exits(3)
        await (await scene.keeper(done)).exits(0)
        retry = partial(verbs(scene).flights.retry, ANN, note="look twice")
        again = await retry(failed)
        assert (again["id"], again["state"], again["attempt"]) == (failed, "queued", 2)
        await later(1)
        assert "look twice" in ((await scene.keeper(failed)).folder / "payload.md").read_text()
        for refused in (done, runs):
            with pytest.raises(ConflictError, match="cannot retry flight"):
                await retry(refused)
