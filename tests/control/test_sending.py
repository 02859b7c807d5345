"""Sending: who may send what to whom, what counts as sent already, and what is on disk when it is answered."""

from __future__ import annotations

from dataclasses import replace

import pytest
from engine.scripted import ANN, EPOCH, Scene, agent, later

from tower.control import sending
from tower.core.callers import Caller
from tower.core.errors import BusyError, ConflictError, InvalidError, NotFoundError, RefusedError, TowerError
from tower.core.records import Sender
from tower.core.states import HeldReason
from tower.engine import ground_stop
from tower.store.flights import KEY_WINDOW_SEC

from .verbs import verbs

pytestmark = pytest.mark.anyio

CODER, TESTER = agent("coder"), agent("tester", entry=False)
PAIR = (CODER, TESTER)
ROUTE = "coder -> tester"


async def test_a_person_opens_a_chain_with_its_budgets(scene: Scene) -> None:
    async with scene.tower(agent("coder", fuel=9), TESTER, max_hops=5, max_runs=7):
        flight = await scene.flight(await scene.send("coder", name="tonight", priority=3))
        itinerary = await scene.itinerary(flight.id)
        assert flight.sender == Sender(kind="person", name="ann")
        assert (flight.hops_remaining, flight.priority) == (4, 3)
        assert (itinerary.name, itinerary.max_hops, itinerary.max_runs, itinerary.fuel_limit) == ("tonight", 5, 7, 9)


async def test_a_run_sends_along_its_route_within_its_chain_and_spends_a_hop(scene: Scene) -> None:
    async with scene.tower(*PAIR, routes=[ROUTE], max_hops=3):
        first = await scene.send("coder")
        run = await scene.run(first)
        flight = await scene.flight(await scene.send("tester", run=run))
        assert flight.sender == Sender(kind="agent", name="coder", ref=run.id)
        assert flight.itinerary == run.itinerary
        assert flight.hops_remaining == 1
        (queued,) = [event for event in await scene.events() if event.flight == flight.id and "queued" in event.type]
        assert (queued.run, queued.data) == (run.id, {"sender": "agent", "by": "coder"})


@pytest.mark.parametrize(
    ("request_", "error", "code"),
    [
        ({"body": ""}, InvalidError, "empty-body"),
        ({"body": " \n\t "}, InvalidError, "empty-body"),
        ({"body": "\udc80"}, InvalidError, "not-text"),
        ({"body": "é" * 51}, InvalidError, "body-too-large"),
        ({"key": ""}, InvalidError, "bad-key"),
        ({"key": "k" * 201}, InvalidError, "bad-key"),
        ({"key": "a\nb"}, InvalidError, "bad-key"),
        ({"name": "\x1b[31m"}, InvalidError, "bad-name"),
        ({"name": ""}, InvalidError, "bad-name"),
        ({"priority": 101}, InvalidError, "bad-priority"),
        ({"priority": -101}, InvalidError, "bad-priority"),
        ({"to": "codr"}, NotFoundError, "unknown-agent"),
        ({"to": "tester"}, RefusedError, "no-entry"),
        ({"to": "idler"}, RefusedError, "disabled"),
    ],
    ids=lambda value: ascii(value)[:30],
)
async def test_what_no_person_may_send_is_refused_and_leaves_nothing(
    scene: Scene, request_: dict[str, object], error: type[TowerError], code: str
) -> None:
    async with scene.tower(*PAIR, agent("idler", enabled=False), max_body_bytes=101):
        with pytest.raises(error) as refused:
            await scene.send(**{"to": "coder", "body": "go"} | request_)  # type: ignore[arg-type]
        assert refused.value.code == code
        assert refused.value.sentence.startswith("cannot ")
        assert refused.value.hint
        assert await scene.events() == []


async def test_what_stands_on_the_edge_is_accepted(scene: Scene) -> None:
    async with scene.tower(CODER, max_body_bytes=100):
        for edge in (
            {"body": "é" * 50},
            {"key": "k" * 200},
            {"name": "n" * 200},
            {"priority": 100},
            {"priority": -100},
        ):
            assert (await scene.flight(await scene.send("coder", **edge))).state == "running"


async def test_a_run_may_not_leave_its_routes_nor_send_when_it_is_over(scene: Scene) -> None:
    """B105: who sends where no route leads is told so at once."""
    async with scene.tower(*PAIR, agent("third"), routes=[ROUTE]):
        flight = await scene.send("coder")
        run = await scene.run(flight)
        with pytest.raises(RefusedError, match="no route leads there; coder may send to tester"):
            await scene.send("third", run=run)
        await (await scene.keeper(flight)).exits(0)
        with pytest.raises(RefusedError, match="the run that asks is over"):
            await scene.send("tester", run=run)
        with pytest.raises(RefusedError, match="the run that asks is over"):
            await scene.send("tester", run=replace(run, id="run_" + "0" * 26))


async def test_a_chain_that_was_cancelled_takes_nothing_any_more(scene: Scene) -> None:
    async with scene.tower(*PAIR, routes=[ROUTE]) as tower:
        flight = await scene.send("coder")
        (await scene.keeper(flight)).is_deaf = True
        await verbs(scene).itineraries.cancel(ANN, (await scene.flight(flight)).itinerary)
        with pytest.raises(RefusedError, match="a person cancelled this chain"):
            await scene.send("tester", run=await scene.run(flight))
        assert len(tower.live) == 1


async def test_hops_run_out_along_a_chain_and_branches_inherit_what_is_left(scene: Scene) -> None:
    """B105: a chain without hops says so to who sends; nothing is dropped."""
    async with scene.tower(CODER, routes=["coder -> coder"], max_hops=3):
        flight = await scene.send("coder")
        for left in (1, 0):
            run = await scene.run(flight)
            branches = [await scene.send("coder", body, run=run) for body in ("one way", "the other")]
            assert [(await scene.flight(branch)).hops_remaining for branch in branches] == [left, left]
            flight = branches[0]
        with pytest.raises(RefusedError, match="no hops left"):
            await scene.send("coder", run=await scene.run(flight))


async def test_the_same_key_is_answered_with_the_first_flight_and_starts_nothing(scene: Scene) -> None:
    async with scene.tower(*PAIR):
        first = await sending.send(scene.now, ANN, sending.Request(to="coder", body="go", key="k"))
        again = await sending.send(scene.now, ANN, sending.Request(to="coder", body="go", key="k"))
        assert (again.flight.id, again.duplicate) == (first.flight.id, True)
        with pytest.raises(ConflictError) as refused:
            await scene.send("coder", "another body", key="k")
        assert refused.value.code == "key-reused"
        assert first.flight.id in refused.value.sentence
        await later(1)
        assert len(scene.keepers.plans) == 1


async def test_a_key_belongs_to_a_person_and_a_receiver_and_lapses_after_a_day(scene: Scene) -> None:
    async with scene.tower(CODER, agent("tester")):
        first = await scene.send("coder", key="k")
        bob = await sending.send(scene.now, Caller(name="bob"), sending.Request(to="coder", body="other", key="k"))
        assert bob.flight.id != first
        assert await scene.send("tester", "other", key="k") != first
        await later(KEY_WINDOW_SEC - 1)
        assert await scene.send("coder", key="k") == first
        await later(1)
        assert await scene.send("coder", "a new day", key="k") != first


async def test_an_agents_key_belongs_to_its_chain(scene: Scene) -> None:
    async with scene.tower(*PAIR, routes=[ROUTE]):
        tonight, tomorrow = await scene.send("coder"), await scene.send("coder")
        first = await scene.send("tester", run=await scene.run(tonight), key="k")
        assert await scene.send("tester", run=await scene.run(tonight), key="k") == first
        assert await scene.send("tester", run=await scene.run(tomorrow), key="k") != first


async def test_what_an_interrupted_run_had_sent_is_not_sent_again_across_two_recoveries(scene: Scene) -> None:
    async with scene.tower(*PAIR, agent("third"), routes=[ROUTE, "coder -> third"]):
        flight = await scene.send("coder")
        sent = {}
        for body in ("first", "second"):
            sent[body] = await scene.send("tester", body, run=await scene.run(flight))
            await (await scene.keeper(flight)).vanishes()
            await later(60)
        run = await scene.run(flight)
        assert run.attempt == 3
        for body, before in sent.items():
            caller = Caller(name="coder", run=run.id)
            again = await sending.send(scene.now, caller, sending.Request(to="tester", body=body))
            assert (again.flight.id, again.duplicate) == (before, True)
        assert await scene.send("tester", "third", run=run) not in sent.values()
        assert await scene.send("tester", "First", run=run) not in sent.values()
        assert await scene.send("third", "first", run=run) not in sent.values()


async def test_a_run_that_follows_nobody_may_say_the_same_twice(scene: Scene) -> None:
    async with scene.tower(*PAIR, routes=[ROUTE]):
        run = await scene.run(await scene.send("coder"))
        assert await scene.send("tester", run=run) != await scene.send("tester", run=run)


async def test_only_so_many_may_wait_for_an_agent_and_a_repeated_key_is_still_answered(scene: Scene) -> None:
    async with scene.tower(agent("coder", max_pending=2, max_concurrent=1)):
        await scene.send("coder")
        first = await scene.send("coder", key="k")
        await scene.send("coder")
        with pytest.raises(RefusedError, match="2 flights wait for it already"):
            await scene.send("coder")
        assert await scene.send("coder", key="k") == first


async def test_during_a_ground_stop_a_send_is_accepted_and_held(scene: Scene) -> None:
    async with scene.tower(CODER) as tower:
        await ground_stop.engage(tower, by="bob", why="smoke")
        sent = await sending.send(tower, ANN, sending.Request(to="coder", body="go"))
        assert (sent.flight.state, sent.flight.held_reason) == ("held", HeldReason.GROUND_STOP)
        assert "engaged by bob: smoke; `tower ground-stop off` releases it" in (sent.flight.reason or "")


async def test_on_a_full_disk_nothing_new_is_taken(scene: Scene) -> None:
    async with scene.tower(CODER) as tower:
        with scene.full_disk(), pytest.raises(BusyError):
            await scene.send("coder")
        tower.ballast.throw_off()
        with pytest.raises(BusyError) as refused:
            await scene.send("coder")
        assert refused.value.code == "disk-full"
        assert await scene.events() == []


async def test_a_flight_may_wait_for_its_hour(scene: Scene) -> None:
    async with scene.tower(CODER):
        flight = await scene.flight(await scene.send("coder", not_before=EPOCH + 60))
        assert (flight.state, flight.not_before) == ("queued", EPOCH + 60)


async def test_a_route_that_spawns_opens_a_chain_with_fresh_budgets_and_spends_no_hop(scene: Scene) -> None:
    tester = agent("tester", entry=False, fuel=9)
    async with scene.tower(CODER, tester, routes=["coder => tester"], max_hops=1, max_runs=7):
        run = await scene.run(await scene.send("coder"))
        flight = await scene.flight(await scene.send("tester", run=run))
        opened = await scene.itinerary(flight.id)
        assert flight.itinerary != run.itinerary
        assert flight.sender == Sender(kind="agent", name="coder", ref=run.id)
        assert (opened.parent, opened.spawn_generation) == (run.itinerary, 1)
        assert (opened.max_hops, opened.max_runs, opened.fuel_limit, opened.fuel_spent) == (1, 7, 9, 0)


async def test_chains_that_open_chains_are_bounded(scene: Scene) -> None:
    async with scene.tower(*PAIR, routes=["coder => tester", "tester => coder"], max_spawn_generations=1):
        run = await scene.run(await scene.send("coder"))
        second = await scene.run(await scene.send("tester", run=run))
        with pytest.raises(RefusedError, match="max_spawn_generations is 1") as caught:
            await scene.send("coder", run=second)
        assert caught.value.code == "no-spawn"


async def test_a_key_stands_for_the_chain_that_it_opened(scene: Scene) -> None:
    async with scene.tower(*PAIR, routes=["coder => tester"]):
        run = await scene.run(await scene.send("coder"))
        first = await scene.send("tester", run=run, key="once")
        again = await scene.send("tester", run=run, key="once")
        assert again == first
