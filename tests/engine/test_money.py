"""Fuel and Reserve through the life of runs: set aside at the claim, settled at the end, never counted twice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tower.control import sending
from tower.core.callers import Caller
from tower.core.errors import RefusedError
from tower.core.factory import FuelAction, RecoveryPolicy, Reserve, Runner
from tower.core.states import HeldReason
from tower.engine import circuits, holds, meter
from tower.engine.looking import explain_waiting
from tower.store import circuits as stored
from tower.store import ledger

from .scripted import Scene, agent, idle, later

pytestmark = pytest.mark.anyio

DOLLAR = 1_000_000


def coder(**changes: Any) -> Any:
    return agent("coder", **{"fuel": DOLLAR, "reserve": 400_000} | changes)


async def chain_of_five(scene: Scene) -> list[str]:
    """One chain: its first run sends four flights to testers, and all of them are expected to cost $0.40."""
    first = await scene.send("coder")
    run = await scene.run(first)
    return [first, *[await scene.send("tester", f"{number}", run=run) for number in range(4)]]


TESTER = agent("tester", reserve=400_000)
ROUTE = ["coder -> tester"]


async def test_five_at_once_spend_no_more_than_there_is_and_go_on_when_there_is_more(scene: Scene) -> None:
    """B101, B103: money binds before a run starts; what it stops waits for a person, and goes on from there."""
    async with scene.tower(coder(), TESTER, routes=ROUTE) as tower:
        flights = await chain_of_five(scene)
        states = [(await scene.flight(one)).state for one in flights]
        assert states == ["running", "running", "held", "held", "held"]
        held = await scene.flight(flights[2])
        assert held.held_reason == HeldReason.FUEL
        assert "`tower refuel itn_" in (held.reason or "")
        chain = await scene.itinerary(flights[0])
        assert (chain.fuel_spent, chain.fuel_reserved) == (0, 800_000)
        for one in flights[:2]:
            keeper = await scene.keeper(one)
            await keeper.reports(cost_usd=0.4)
            await keeper.exits(0)
        chain = await scene.itinerary(flights[0])
        assert (chain.fuel_spent, chain.fuel_reserved) == (800_000, 0)
        assert [(await scene.flight(one)).state for one in flights[2:]] == ["held"] * 3
        await tower.store.write(lambda connection: _refuel(tower, connection, chain.id, 600_000))
        tower.wake()
        await idle()
        assert [(await scene.flight(one)).state for one in flights[2:]] == ["running", "running", "held"]


def _refuel(tower: Any, connection: Any, chain: str, amount: int) -> None:
    from tower.engine import money

    ledger.refuel(connection, chain, amount)
    money.release_fuel(tower, connection, chain)


async def test_what_turned_out_cheaper_lets_others_go_by_itself(scene: Scene) -> None:
    async with scene.tower(coder(), TESTER, routes=ROUTE):
        flights = await chain_of_five(scene)
        for one in flights[:2]:
            keeper = await scene.keeper(one)
            await keeper.reports(cost_usd=0.1)
            await keeper.exits(0)
        await idle()
        assert [(await scene.flight(one)).state for one in flights[2:]] == ["running", "running", "held"]


async def test_a_restart_gives_no_fresh_budget(scene: Scene) -> None:
    """B102: what was spent is not forgotten with the process."""
    async with scene.tower(coder(reserve=100_000), TESTER, routes=ROUTE):
        first = await scene.send("coder")
        keeper = await scene.keeper(first)
        await keeper.reports(cost_usd=0.9)
    async with scene.tower(coder(reserve=100_000), TESTER, routes=ROUTE):
        chain = await scene.itinerary(first)
        assert (chain.fuel_spent, chain.fuel_reserved) == (0, 100_000)
        leg = await scene.send("tester", run=await scene.run(first))
        assert (await scene.flight(leg)).state == "running"
        await keeper.exits(0)
        chain = await scene.itinerary(first)
        assert (chain.fuel_spent, chain.fuel_reserved) == (900_000, 400_000)
        # It is past its Fuel by what is set aside, and says since when once it is spent.
        keeper = await scene.keeper(leg)
        await keeper.reports(cost_usd=0.5)
        await keeper.exits(0)
        chain = await scene.itinerary(first)
        assert (chain.fuel_spent, chain.fuel_reserved) == (1_400_000, 0)
        assert chain.overshot_at is not None


async def test_a_chain_that_has_spent_its_fuel_sends_no_more_and_is_told_so(scene: Scene) -> None:
    async with scene.tower(coder(reserve=0), TESTER, routes=ROUTE) as tower:
        first = await scene.send("coder")
        run = await scene.run(first)
        second = await scene.send("tester", run=run)
        keeper = await scene.keeper(second)
        await keeper.reports(cost_usd=1)
        await keeper.exits(0)
        with pytest.raises(RefusedError, match=r"spent \$1.00 of its \$1.00 of Fuel"):
            await sending.send(tower, Caller(name="coder", run=run.id), sending.Request(to="tester", body="more"))


@pytest.mark.parametrize("end", ["exits", "vanishes"])
async def test_a_run_that_says_nothing_is_charged_what_was_set_aside(scene: Scene, end: str) -> None:
    async with scene.tower(coder(recovery=RecoveryPolicy.NEVER)):
        first = await scene.send("coder")
        keeper = await scene.keeper(first)
        await (keeper.exits(0) if end == "exits" else keeper.vanishes())
        await later(1)
        run, chain = await scene.run(first), await scene.itinerary(first)
        assert (run.cost, run.cost_source, run.charged, run.reserved) == (None, "unreported", 400_000, 0)
        assert (chain.fuel_spent, chain.fuel_reserved) == (400_000, 0)


async def test_a_loop_whose_programs_say_nothing_of_money_ends_at_its_run_cap(scene: Scene) -> None:
    """B101: where nothing is known to cost anything, and nothing is set aside, the number of runs is the bound."""
    free = [agent(name, reserve=0) for name in ("coder", "tester")]
    routes = [*ROUTE, "tester -> coder"]
    async with scene.tower(*free, routes=routes, max_hops=99, max_runs=7):
        flight = await scene.send("coder")
        for number in range(1, 8):
            run = await scene.run(flight)
            flight = await scene.send("tester" if number % 2 else "coder", run=run)
            await scene.keepers.started[run.id].exits(0)
        refused, chain = await scene.flight(flight), await scene.itinerary(flight)
        assert (refused.state, chain.runs_started, chain.fuel_spent) == ("refused", 7, 0)
        assert "has had all of its 7 runs" in (refused.reason or "")


async def test_a_run_that_never_started_costs_nothing_and_keeps_nothing_aside(scene: Scene) -> None:
    async with scene.tower(coder(), is_dispatching=False) as tower:
        first = await scene.send("coder")

        async def stop_everything() -> None:
            tower.stopping = True

        scene.meanwhile(stop_everything)
        await scene.dispatch()
        chain = await scene.itinerary(first)
        assert (chain.fuel_spent, chain.fuel_reserved, chain.runs_started) == (0, 0, 0)


async def test_what_a_run_costs_is_learnt_from_its_agent_s_last_ones(scene: Scene) -> None:
    async with scene.tower(agent("coder")):
        for dollars in (0.02, 0.5):
            flight = await scene.send("coder")
            keeper = await scene.keeper(flight)
            await keeper.reports(cost_usd=dollars)
            await keeper.exits(0)
        assert [(await scene.run(one)).estimate for one in (flight, await scene.send("coder"))] == [20_000, 500_000]


async def test_a_cost_that_is_not_believed_is_said_and_unknown(scene: Scene) -> None:
    async with scene.tower(coder()):
        flight = await scene.send("coder")
        keeper = await scene.keeper(flight)
        await keeper.reports(cost_usd=0, tokens_in=900, tokens_out=5)
        await keeper.exits(0)
        run = await scene.run(flight)
        assert (run.cost, run.cost_source, run.charged) == (None, "unreported", 400_000)
        assert any("not believed" in note for note in run.notes)


@pytest.mark.parametrize("action", list(FuelAction))
async def test_what_is_seen_while_a_run_goes_counts_at_once(scene: Scene, action: FuelAction) -> None:
    async with scene.tower(coder(), also=[meter.watch], fuel_action=action) as tower:
        first = await scene.send("coder")
        keeper = await scene.keeper(first)
        await keeper.reports(cost_usd=0.8)
        await later(meter.LOOK_SEC)
        assert (await scene.itinerary(first)).fuel_reserved == 800_000
        assert keeper.asked == []
        await keeper.reports(cost_usd=1.25)
        await later(meter.LOOK_SEC)
        chain = await scene.itinerary(first)
        assert chain.overshot_at is not None
        if action is FuelAction.FINISH:
            assert (keeper.asked, chain.fuel_reserved) == ([], 1_250_000)
            return
        assert keeper.asked == ["fuel"]
        held = await scene.flight(first)
        assert (held.state, held.held_reason, held.attempt) == ("held", HeldReason.FUEL, 2)
        assert (await scene.run(first)).outcome == "interrupted"
        assert (chain.fuel_spent, chain.fuel_reserved) == (1_250_000, 0)
        await tower.store.write(lambda connection: _refuel(tower, connection, chain.id, DOLLAR))
        tower.wake()
        await idle()
        second = await scene.run(first)
        assert (second.attempt, second.cause, (await scene.flight(first)).state) == (2, "recovery", "running")


async def test_the_reserve_holds_until_its_window_has_room_or_is_raised(scene: Scene) -> None:
    reserve = Reserve(fuel=DOLLAR, window_hours=1)

    def narrow(tower: Any, limit: int) -> None:
        tower.factory = replace(tower.factory, reserve=replace(reserve, fuel=limit))

    async with scene.tower(coder(reserve=300_000), also=[holds.watch], is_dispatching=False) as tower:
        narrow(tower, DOLLAR)
        await scene.dispatch()
        first = await scene.send("coder")
        keeper = await scene.keeper(first)
        await keeper.reports(cost_usd=0.8)
        await keeper.exits(0)
        ended = (await scene.run(first)).ended_at or 0
        second = await scene.send("coder")
        held = await scene.flight(second)
        assert (held.state, held.held_reason) == ("held", HeldReason.RESERVE)
        assert held.release_at == pytest.approx(ended + 3600, abs=1)
        assert await scene.read(ledger.marks) == {80, 100}
        third = await scene.send("coder")
        narrow(tower, 1_100_000)
        await holds.after_reload(tower)
        await idle()
        assert [(await scene.flight(one)).state for one in (second, third)] == ["running", "held"]
        await later(3600 + holds.LOOK_SEC)
        assert (await scene.flight(third)).state == "running"


async def test_a_restart_forgets_nothing_of_the_reserve(scene: Scene) -> None:
    """B102: the window is the factory's, whoever serves it."""
    reserve = Reserve(fuel=DOLLAR, window_hours=1)
    async with scene.tower(coder(reserve=300_000)):
        for _ in range(2):
            keeper = await scene.keeper(await scene.send("coder"))
            await keeper.reports(cost_usd=0.4)
            await keeper.exits(0)
    async with scene.tower(coder(reserve=300_000), is_dispatching=False) as tower:
        tower.factory = replace(tower.factory, reserve=reserve)
        await scene.dispatch()
        held = await scene.flight(await scene.send("coder"))
        assert (held.state, held.held_reason) == ("held", HeldReason.RESERVE)
        assert "has spent $0.80 in 1 hours" in (held.reason or "")


WALL = Runner(name="unavailable:weekly limit", kind="unavailable", detail="weekly limit")


async def test_a_wall_parks_its_runner_and_no_other_until_one_flight_has_tried_it(scene: Scene) -> None:
    """B090, B092: a wall with a named end is not run against before it, costs nothing, and is nobody else's."""
    agents = (agent("coder"), agent("tester", runner="cmd:other"))
    other = Runner(name="cmd:other", kind="cmd", command=("true",))
    async with scene.tower(*agents, runners=[other], also=[holds.watch]) as tower:
        first, second = await scene.send("coder"), await scene.send("coder")
        keeper = await scene.keeper(first)
        await keeper.reports(unavailable="weekly limit", retry_after_sec=3000)
        await keeper.exits(1)
        third = await scene.send("coder")
        # The one that runs goes on; what comes is held, and another runner works.
        assert [(await scene.flight(one)).state for one in (first, second, third)] == ["held", "running", "held"]
        assert (await scene.flight(third)).held_reason == HeldReason.QUOTA
        assert (await scene.flight(await scene.send("tester"))).state == "running"
        assert (await scene.itinerary(first)).runs_started == 0
        assert (await scene.itinerary(first)).fuel_spent == 0
        await (await scene.keeper(second)).exits(0)
        await later(2990)
        assert [(await scene.flight(one)).state for one in (first, third)] == ["held", "held"]
        await later(10 + holds.LOOK_SEC)
        assert sorted([(await scene.flight(one)).state for one in (first, third)]) == ["held", "running"]
        fourth = await scene.send("coder")
        words = {flight.id: why for flight, why in await explain_waiting(tower, 10)}
        assert "is being tried with one flight" in (words[fourth] or "")
        await (await scene.keeper(first)).exits(0)
        await idle()
        assert [(await scene.flight(one)).state for one in (first, third, fourth)] == ["landed", "running", "running"]
        assert await scene.read(stored.every) == {}
        assert (await scene.flight(first)).attempt == 1


async def test_an_outage_loses_nothing_costs_nothing_and_is_tried_by_one_at_a_time(scene: Scene) -> None:
    """B094: a provider that is away for longer than anybody's patience."""
    async with scene.tower(coder(), also=[holds.watch]) as tower:
        sent = [await scene.send("coder", f"{number}") for number in range(5)]
        assert len(tower.live) == 5
        outage = scene.keepers.started
        for _ in range(90):
            at_work = [keeper for keeper in outage.values() if keeper.is_alive]
            for keeper in at_work:
                await keeper.reports(unavailable="overloaded")
                await keeper.exits(1)
            await later(10)
            assert len(tower.live) <= 1
        assert len(outage) <= 5 + 4, "a try after 1, 2, 4 and 8 minutes"
        while {(await scene.flight(one)).state for one in sent} != {"landed"}:
            await later(60)
            for keeper in list(outage.values()):
                if keeper.is_alive:
                    await keeper.exits(0)
        for one in sent:
            flight, chain = await scene.flight(one), await scene.itinerary(one)
            assert (flight.outcome, flight.attempt) == ("succeeded", 1)
            assert (chain.runs_started, chain.fuel_spent, chain.fuel_reserved) == (1, 400_000, 0)


@pytest.mark.parametrize("code", [0, 1])
async def test_a_sign_in_that_ran_out_is_tried_once_and_said_once(scene: Scene, code: int) -> None:
    """B095, B096: such words are no success, whatever the exit code, and burn nothing."""
    mine = Runner(name="mine", kind="command", command=("true",), unavailable_patterns=("[Pp]lease log in",))
    async with scene.tower(coder(runner="mine", max_concurrent=1), runners=[mine], also=[holds.watch]):
        sent = [await scene.send("coder", f"{number}") for number in range(4)]
        keeper = await scene.keeper(sent[0])
        await keeper.prints("Your session has expired. Please log in.\n")
        await keeper.exits(code)
        await later(50)
        assert len(scene.keepers.started) == 1
        held = [await scene.flight(one) for one in sent]
        assert {(one.state, one.held_reason, one.attempt) for one in held} == {("held", HeldReason.QUOTA, 1)}
        assert all("Please log in" in (one.reason or "") for one in held)
        assert [event.type for event in await scene.events()].count("circuit.opened") == 1


async def test_a_wall_outlives_the_tower_and_a_person_can_end_it(scene: Scene) -> None:
    wall = (agent("coder", runner=WALL.name),)
    async with scene.tower(*wall, runners=[WALL]):
        first = await scene.send("coder")
        await (await scene.keeper(first)).exits(1)
    async with scene.tower(*wall, runners=[WALL]) as tower:
        second = await scene.send("coder")
        assert (await scene.flight(second)).held_reason == HeldReason.QUOTA
        reset = await tower.store.write(lambda it: circuits.reset(tower, it, WALL.name, by="ann"))
        tower.wake()
        await idle()
        assert reset
        assert [(await scene.flight(one)).state for one in (first, second)] == ["running", "running"]
