"""Joins in a living tower: who wakes whom when, through failures, restarts, edits and a person's word."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import cycle
from pathlib import Path

import pytest

from tower.core.chain import ChainState, state_of
from tower.core.errors import ConflictError, RefusedError
from tower.core.factory import RecoveryPolicy, Runner
from tower.core.records import Run
from tower.core.routes import Join, JoinKind, Route
from tower.core.states import FlightState, Outcome
from tower.engine import again, ground_stop, holds, joins
from tower.store import flights, itineraries, runs
from tower.store.database import Connection

from .scripted import ANN, Scene, agent, later

pytestmark = pytest.mark.anyio

DEV = agent("dev")
CREW = (DEV, agent("tester", recovery=RecoveryPolicy.MANUAL), agent("reviewer"))
ALL = Join(kind=JoinKind.ALL, senders=("tester", "reviewer"))


def edges(join: Join = ALL) -> list[Route]:
    """The developer hands out to all senders of a join, who are joined back to it."""
    there = [Route(sender="dev", receiver=sender) for sender in join.senders]
    return there + [Route(sender=sender, receiver="dev", join=join) for sender in join.senders]


class Loop:
    """A chain that began with the developer, and its first hand-out."""

    def __init__(self, scene: Scene, first: str) -> None:
        self.scene, self.first = scene, first
        self.asked: dict[str, str] = {}
        """Agent -> the flight that was handed out to it last."""

    async def hand_out(self, run: Run | None = None) -> None:
        run = run or await self.scene.run(self.first)
        for name in ("tester", "reviewer"):
            self.asked[name] = await self.scene.send(name, run=run)
        await self.scene.keepers.started[run.id].exits(0)

    async def says(self, name: str, body: str) -> str:
        """The agent delivers, and goes on."""
        return await self.scene.send("dev", body, run=await self.scene.run(self.asked[name]))

    async def ends(self, name: str, code: int = 0) -> None:
        await (await self.scene.keeper(self.asked[name])).exits(code)

    async def delivers(self, name: str, body: str) -> str:
        flight = await self.says(name, body)
        await self.ends(name)
        return flight

    async def states(self) -> list[str]:
        itinerary = (await self.scene.flight(self.first)).itinerary
        found = await self.scene.read(flights.of_itinerary, itinerary)
        return [f"{it.sender.name} -> {it.receiver} {it.state}" for it in found]

    async def state(self) -> ChainState:
        itinerary = (await self.scene.flight(self.first)).itinerary
        return state_of(await self.scene.read(itineraries.facts, itinerary))

    async def devs(self) -> list[Run]:
        found = await self.scene.read(runs.of_itinerary, (await self.scene.flight(self.first)).itinerary)
        return [run for run in found if run.agent == "dev"]

    async def released(self) -> str:
        itinerary = (await self.scene.flight(self.first)).itinerary
        await self.scene.now.store.write(
            partial(joins.release, self.scene.now, itinerary=itinerary, receiver="dev", person="ann")
        )
        self.scene.now.wake()
        await later(0)
        return itinerary


async def begun(scene: Scene) -> Loop:
    loop = Loop(scene, await scene.send("dev"))
    await loop.hand_out()
    return loop


def payload(scene: Scene, run: Run) -> str:
    return Path(scene.state.run_folder(run.agent, run.id), "payload.md").read_text()


async def test_the_receiver_wakes_once_with_all_in_the_order_of_from(scene: Scene) -> None:
    async with scene.tower(*CREW, routes=edges()):
        loop = await begun(scene)
        second = await loop.says("reviewer", "Looks fine.")
        assert (await scene.flight(second)).state == FlightState.PARKED
        await loop.ends("reviewer")
        first = await loop.says("tester", "# Two tests fail.")
        assert len(await loop.devs()) == 1, "the tester is still at it"
        await loop.ends("tester")
        _, woken = await loop.devs()
        assert woken.flights == (first, second)
        told = payload(scene, woken)
        assert "a join woke you with all of it, quoted below in this order: tester, reviewer." in told
        assert told.index("From the agent tester") < told.index("# Two tests fail.") < told.index("From the agent rev")
        assert await loop.state() is ChainState.WORKING
        await scene.keepers.started[woken.id].exits(0)
        assert await loop.state() is ChainState.FINISHED
        assert {(await scene.flight(it)).state for it in (first, second)} == {FlightState.LANDED}
        assert [(await scene.story(it))[-1] for it in (first, second)] == ["flight.landed"] * 2
        scene.assert_free()


async def test_a_loop_turns_and_hops_are_those_of_the_longest_way(scene: Scene) -> None:
    async with scene.tower(*CREW, routes=edges(), max_hops=7):
        loop = await begun(scene)
        for hops in (4, 2):
            await loop.delivers("tester", f"no {hops}")
            await loop.delivers("reviewer", f"no {hops}")
            woken = (await loop.devs())[-1]
            assert [(await scene.flight(it)).hops_remaining for it in woken.flights] == [hops, hops]
            await loop.hand_out(woken)
        assert len(await loop.devs()) == 3


async def test_a_sender_that_fails_strands_the_others_at_once_and_a_person_can_release(scene: Scene) -> None:
    from control.verbs import verbs

    async with scene.tower(*CREW, routes=edges()):
        loop = await begun(scene)
        parked = await loop.delivers("tester", "fine")
        await loop.ends("reviewer", 1)
        stranded = await scene.flight(parked)
        assert stranded.state == FlightState.STRANDED
        assert "nothing is under way any more that could make reviewer deliver" in (stranded.reason or "")
        assert f"`tower release {stranded.itinerary} dev`" in (stranded.reason or "")
        assert await loop.state() is ChainState.STALLED
        (event,) = [it for it in await scene.events() if it.type == "join.given-up"]
        assert (event.agent, event.data["missing"], event.data["flights"]) == ("dev", ["reviewer"], [parked])
        status = await verbs(scene).factory.status(ANN)
        (warning,) = [it for it in status["warnings"] if "was given up" in it]
        assert f"`tower release {stranded.itinerary} dev`" in warning
        assert not status["well"]
        await loop.released()
        assert (await verbs(scene).factory.status(ANN))["well"]
        _, woken = await loop.devs()
        assert woken.flights == (parked,)
        await scene.keepers.started[woken.id].exits(0)
        assert await loop.state() is ChainState.FINISHED
        with pytest.raises(ConflictError, match="nothing is parked there"):
            await loop.released()


async def test_a_sender_that_says_nothing_and_one_that_failed_after_it_spoke_do_not_count(scene: Scene) -> None:
    async with scene.tower(*CREW, routes=edges()):
        loop = await begun(scene)
        spoken = await loop.says("tester", "fine")
        await loop.ends("tester", 3)
        assert (await scene.flight(spoken)).state == FlightState.STRANDED, "the reviewer alone cannot complete it"
        await loop.ends("reviewer")
        assert await loop.state() is ChainState.STALLED
        assert len(await loop.devs()) == 1


async def test_a_retried_sender_completes_what_was_given_up(scene: Scene) -> None:
    async with scene.tower(*CREW, routes=edges()):
        loop = await begun(scene)
        parked = await loop.delivers("tester", "fine")
        await loop.ends("reviewer", 1)
        await again.retry(scene.now, loop.asked["reviewer"], person="ann", note=None)
        await later(0)
        assert await loop.state() is ChainState.WORKING
        late = await loop.delivers("reviewer", "fine as well")
        assert (await loop.devs())[-1].flights == (parked, late)


async def test_a_recovered_sender_has_delivered_once(scene: Scene) -> None:
    async with scene.tower(*CREW, routes=edges()):
        loop = await begun(scene)
        await loop.delivers("tester", "fine")
        said = await loop.says("reviewer", "fine")
        await (await scene.keeper(loop.asked["reviewer"])).vanishes()
        await later(120)
        assert len(await loop.devs()) == 1, "it was interrupted: its work is not over"
        assert await loop.says("reviewer", "fine") == said
        await loop.ends("reviewer")
        assert (await loop.devs())[-1].flights[1:] == (said,)


async def test_work_that_waits_for_a_person_is_waited_for(scene: Scene) -> None:
    async with scene.tower(*CREW, routes=edges()):
        loop = await begun(scene)
        await loop.delivers("reviewer", "fine")
        await (await scene.keeper(loop.asked["tester"])).vanishes()
        await later(120)
        assert await loop.state() is ChainState.WAITING
        assert "reviewer -> dev parked" in await loop.states()
        await scene.now.store.write(
            lambda connection: flights.move(connection, loop.asked["tester"], FlightState.CANCELLED)
        )
        await joins.look_at_all(scene.now)
        assert "reviewer -> dev stranded" in await loop.states()


async def test_a_delivery_anew_supersedes_the_wave(scene: Scene) -> None:
    async with scene.tower(*CREW, agent("boss"), routes=[*edges(), Route(sender="boss", receiver="tester")]):
        boss = await scene.run(await scene.send("boss"))
        loop = await begun(scene)
        # Of another chain: it is nothing to this one.
        await scene.send("tester", run=boss)
        old = [await loop.delivers("tester", "fails"), await loop.says("reviewer", "fine")]
        anew = await scene.now.store.read(lambda connection: flights.get(connection, loop.asked["tester"]))
        again = replace(anew, id="flt_again", state=FlightState.QUEUED, outcome=None)
        await scene.now.store.write(lambda connection: flights.insert(connection, again))
        scene.now.wake()
        await later(0)
        loop.asked["tester"] = again.id
        new = await loop.delivers("tester", "passes")
        assert [(await scene.flight(it)).state for it in (*old, new)] == ["superseded", "superseded", "parked"]
        assert "delivered anew" in str((await scene.flight(old[1])).reason)


async def test_a_third_party_wakes_the_receiver_and_leaves_the_barrier(scene: Scene) -> None:
    async with scene.tower(*CREW, routes=edges()):
        loop = await begun(scene)
        parked = await loop.delivers("tester", "fine")
        await scene.send("dev", "by the way")
        assert (await scene.flight(parked)).state == FlightState.PARKED


async def test_any_supersedes_what_comes_late(scene: Scene) -> None:
    async with scene.tower(*CREW, routes=edges(replace(ALL, kind=JoinKind.ANY))):
        loop = await begun(scene)
        await loop.delivers("reviewer", "fine")
        late = await loop.delivers("tester", "fine")
        assert (await scene.flight(late)).state == FlightState.SUPERSEDED
        _, woken = await loop.devs()
        await loop.hand_out(woken)
        # A verdict on what the receiver did then is no late one.
        await loop.delivers("reviewer", "fine now")
        assert len(await loop.devs()) == 3


async def test_settled_needs_no_guess_about_who_was_asked(scene: Scene) -> None:
    async with scene.tower(*CREW, routes=edges(replace(ALL, kind=JoinKind.SETTLED))):
        loop = Loop(scene, await scene.send("dev"))
        first = await scene.run(loop.first)
        loop.asked["tester"] = await scene.send("tester", run=first)
        said = await loop.delivers("tester", "fine")
        assert (await scene.flight(said)).state == FlightState.PARKED, "the developer may ask the reviewer yet"
        await scene.keepers.started[first.id].exits(0)
        assert (await loop.devs())[-1].flights == (said,)


async def test_suspect_work_counts_where_it_is_accepted(scene: Scene) -> None:
    accepting = replace(ALL, accept_suspect=True)
    for join, expected in ((ALL, "stranded"), (accepting, "queued")):
        async with scene.tower(*CREW, routes=edges(join), also=[]):
            loop = await begun(scene)
            fine = await loop.delivers("tester", "fine")
            said = await loop.says("reviewer", "fine?")

            def suspect(connection: Connection, asked: str = loop.asked["reviewer"]) -> None:
                flights.move(connection, asked, FlightState.LANDED, outcome=Outcome.SUSPECT)

            await scene.now.store.write(suspect)
            await joins.look_at_all(scene.now)
            assert [(await scene.flight(it)).state for it in (fine, said)] == [expected] * 2


async def test_what_a_walled_run_delivered_counts_only_once_its_work_is_done(scene: Scene) -> None:
    """B095: a program that says with exit code 0 that it may spend no more has succeeded in nothing."""
    capped = Runner(name="capped", kind="command", command=("true",), unavailable_patterns=("spending cap",))
    crew = (DEV, agent("tester", runner="capped"), agent("reviewer"))
    async with scene.tower(*crew, routes=edges(), runners=[capped], also=[holds.watch]):
        loop = await begun(scene)
        fine = await loop.delivers("reviewer", "fine")
        said = await loop.says("tester", "fine?")
        keeper = await scene.keeper(loop.asked["tester"])
        await keeper.prints("You have reached your spending cap.\n")
        await keeper.exits(0)
        assert (await scene.flight(loop.asked["tester"])).held_reason == "quota"
        assert {(await scene.flight(it)).state for it in (fine, said)} == {FlightState.PARKED}
        await later(120)
        again = await loop.delivers("tester", "fine, now that I have looked")
        assert (await scene.flight(said)).state == FlightState.SUPERSEDED
        assert (await loop.devs())[-1].flights == (again, fine)


async def test_time_is_up_for_a_run_that_is_alive_but_lost(scene: Scene) -> None:
    async with scene.tower(*CREW, routes=edges(replace(ALL, timeout_sec=100.0)), also=[holds.watch]):
        loop = await begun(scene)
        parked = await loop.delivers("tester", "fine")
        await later(90)
        assert (await scene.flight(parked)).state == FlightState.PARKED
        await later(20)
        assert "reviewer did not deliver within 100 s" in str((await scene.flight(parked)).reason)
        # It was not lost after all.
        late = await loop.delivers("reviewer", "fine")
        assert (await loop.devs())[-1].flights == (parked, late)


async def test_a_restart_in_the_middle_changes_nothing(scene: Scene) -> None:
    async with scene.tower(*CREW, routes=edges()):
        loop = await begun(scene)
        parked = await loop.delivers("tester", "fine")
        said = await loop.says("reviewer", "fine")
    async with scene.tower(*CREW, routes=edges()):
        await joins.look_at_all(scene.now)
        assert {(await scene.flight(it)).state for it in (parked, said)} == {FlightState.PARKED}
        await loop.ends("reviewer")
        await later(0)
        assert (await loop.devs())[-1].flights == (parked, said)
        await scene.keepers.started[(await loop.devs())[-1].id].vanishes()
    async with scene.tower(*CREW, routes=edges()):
        await later(120)
        again = (await loop.devs())[-1]
        assert (again.flights, again.attempt) == ((parked, said), 2)
        assert len(await loop.devs()) == 3


async def test_the_sends_transaction_is_all_or_nothing(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    async with scene.tower(*CREW, routes=edges()):
        loop = await begun(scene)
        with monkeypatch.context() as patch:
            patch.setattr("tower.control.sending.failpoint", _breaks)
            with suppress(RuntimeError):
                await loop.says("tester", "fine")
        assert "tester -> dev parked" not in await loop.states()
        assert await scene.read(lambda connection: connection.execute("SELECT * FROM waves").fetchall()) == []


def _breaks(name: str) -> None:
    if name == "send.before-commit":
        raise RuntimeError(name)


async def test_an_edit_that_takes_the_join_away_lets_each_wake_the_receiver(scene: Scene) -> None:
    async with scene.tower(*CREW, routes=edges()):
        loop = await begun(scene)
        parked = await loop.delivers("tester", "fine")
        scene.now.factory = scene.factory(*CREW, routes=[])
        await joins.look_at_all(scene.now)
        assert (await scene.flight(parked)).state == FlightState.PARKED, "the route may come back"
        scene.now.factory = scene.factory(*CREW, routes=[replace(it, join=None) for it in edges()])
        await joins.look_at_all(scene.now)
        await later(0)
        assert (await loop.devs())[-1].flights == (parked,)


async def test_cancelling_what_is_parked_what_is_missing_or_all(scene: Scene) -> None:
    from control.verbs import verbs

    async with scene.tower(*CREW, routes=edges()):
        loop = await begun(scene)
        tested, reviewed = await loop.delivers("tester", "fine"), await loop.says("reviewer", "fine")
        await verbs(scene).flights.cancel(ANN, tested)
        await loop.ends("reviewer")
        assert (await scene.flight(reviewed)).state == FlightState.STRANDED
        story = await verbs(scene).itineraries.cancel(ANN, (await scene.flight(reviewed)).itinerary)
        assert story["state"] == ChainState.CANCELLED
        assert (await verbs(scene).factory.status(ANN))["well"]
        assert await loop.states() == [
            "ann -> dev landed",
            "dev -> tester landed",
            "dev -> reviewer landed",
            "tester -> dev cancelled",
            "reviewer -> dev cancelled",
        ]


async def test_what_a_join_waits_for_is_said_everywhere(scene: Scene) -> None:
    from control.verbs import verbs

    async with scene.tower(*CREW, routes=edges()):
        loop = await begun(scene)
        parked = await loop.says("tester", "fine")
        await loop.ends("tester")
        words = "the join before dev has tester and waits for reviewer"
        queue = await verbs(scene).flights.listing(ANN, waiting=True, state=None, agent=None, limit=10)
        assert [(it["id"], it["waits_for"]) for it in queue["flights"]] == [(parked, words)]
        assert (await verbs(scene).flights.show(ANN, parked))["waits_for"] == words
        story = await verbs(scene).itineraries.show(ANN, (await scene.flight(parked)).itinerary)
        (join,) = story["joins"]
        assert (join["words"], join["missing"], join["wave"]) == (words, ["reviewer"], 1)
        assert join["parked"] == [{"flight": parked, "sender": "tester", "counts": "good"}]
        await loop.says("reviewer", "fine")
        story = await verbs(scene).itineraries.show(ANN, (await scene.flight(parked)).itinerary)
        assert story["joins"][0]["words"] == "the join before dev has tester and waits for the end of reviewer's run"


async def test_a_person_releases_what_has_arrived_while_others_are_at_it(scene: Scene) -> None:
    from control.verbs import verbs

    async with scene.tower(*CREW, routes=edges()):
        loop = await begun(scene)
        parked = await loop.delivers("tester", "fine")
        itinerary = (await scene.flight(parked)).itinerary
        story = await verbs(scene).itineraries.release(ANN, itinerary, "dev")
        assert story["joins"][0]["words"] is None
        await later(0)
        assert (await loop.devs())[-1].flights == (parked,)
        late = await loop.delivers("reviewer", "fine")
        assert (await scene.flight(late)).reason == "dev had been woken without it"
        (event,) = [it for it in await scene.events() if it.type == "join.released"]
        assert event.data == {"flights": [parked], "by": "ann"}


async def test_what_a_join_released_is_cancelled_and_done_again_as_one(scene: Scene) -> None:
    from control.verbs import verbs

    async with scene.tower(*CREW, routes=edges()):
        loop = await begun(scene)
        pair = (await loop.delivers("tester", "a"), await loop.delivers("reviewer", "b"))
        await scene.keepers.started[(await loop.devs())[-1].id].exits(1)
        assert {(await scene.flight(it)).outcome for it in pair} == {Outcome.FAILED}
        await again.retry(scene.now, pair[1], person="ann", note="both")
        await later(0)
        assert (await loop.devs())[-1].flights == pair
        scene.now.draining = True
        await scene.keepers.started[(await loop.devs())[-1].id].vanishes()
        await later(120)
        await verbs(scene).flights.cancel(ANN, pair[1])
        assert {(await scene.flight(it)).state for it in pair} == {FlightState.CANCELLED}


async def test_more_senders_than_slots_wait_and_the_join_completes(scene: Scene) -> None:
    """Fault B108: a cap on what runs at once must not fail work."""
    crew = [agent(f"w{number:02}") for number in range(11)]
    join = Join(kind=JoinKind.ALL, senders=tuple(one.name for one in crew))
    async with scene.tower(DEV, *crew, routes=edges(join), max_concurrent_runs=3):
        first = await scene.send("dev")
        run = await scene.run(first)
        asked = [await scene.send(one.name, run=run) for one in crew]
        assert len(scene.now.live) == 3
        await scene.keepers.started[run.id].exits(0)
        for flight in asked:
            await scene.send("dev", "done", run=await scene.run(flight))
            await (await scene.keeper(flight)).exits(0)
            assert len(scene.now.live) <= 3
        woken = next(iter(scene.now.live.values())).run
        assert (woken.agent, len(woken.flights)) == ("dev", 11)


async def test_a_triangle_stops_at_its_hops_and_says_why(scene: Scene) -> None:
    """Fault B104: a cap for each pair of agents misses a loop of three."""
    routes = ["dev -> tester", "tester -> reviewer", "reviewer -> dev"]
    async with scene.tower(*CREW, routes=routes, max_hops=6):
        flight, around = await scene.send("dev"), cycle(["tester", "reviewer", "dev"])
        for sent in range(1, 7):
            run = await scene.run(flight)
            if sent == 6:
                with pytest.raises(RefusedError, match="this chain has no hops left"):
                    await scene.send(next(around), run=run)
                break
            flight = await scene.send(next(around), run=run)
            await scene.keepers.started[run.id].exits(0)
        assert len(await scene.read(flights.of_itinerary, run.itinerary)) == 6


async def test_a_ground_stop_in_the_middle_gives_nothing_up(scene: Scene) -> None:
    async with scene.tower(*CREW, routes=edges()):
        loop = await begun(scene)
        parked = await loop.delivers("tester", "fine")
        await ground_stop.engage(scene.now, by="ann", why="fire")
        await later(10)
        assert await loop.state() is ChainState.HALTED
        assert (await scene.flight(parked)).state == FlightState.PARKED
        await ground_stop.release(scene.now)
        await again.all_halted(scene.now, person="ann")
        await later(0)
        late = await loop.delivers("reviewer", "fine")
        assert (await loop.devs())[-1].flights == (parked, late)
