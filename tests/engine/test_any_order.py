"""Whatever happens in whatever order, the promises hold: no illegal move, no second run without a handover, no leak."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack, ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any

import anyio
from hypothesis import given, settings
from hypothesis import strategies as st

from tower.control.flights import FlightVerbs
from tower.core.errors import TowerError
from tower.core.factory import RecoveryPolicy
from tower.core.records import Flight, Run
from tower.core.routes import Join, JoinKind, Route
from tower.core.states import ALIVE, MOVES, FlightState, Outcome
from tower.engine import again, ground_stop, holds, stopping
from tower.engine.presence import keep_seen
from tower.store import flights, runs
from tower.store.database import Connection

from .scripted import ANN, Scene, ScriptedKeeper, agent, empty_scene, idle, jumping_clock, later

AGENTS = (agent("coder"), agent("tester", recovery=RecoveryPolicy.MANUAL, max_concurrent=1), agent("editor"))
JOIN = Join(kind=JoinKind.ALL, senders=("coder", "tester"), timeout_sec=900.0)
ROUTES = ("coder -> tester", *(Route(sender=sender, receiver="editor", join=JOIN) for sender in JOIN.senders))
SLOTS = 2
MOVING = ALIVE | {FlightState.QUEUED}
ANYONE = st.integers(0, 5)

STEPS = st.one_of(
    st.tuples(st.just("send"), st.sampled_from(["coder", "tester"])),
    st.tuples(st.just("hand_on"), ANYONE),
    st.tuples(st.just("deliver"), ANYONE),
    st.tuples(st.just("deliver"), ANYONE),
    st.tuples(st.just("cancel"), ANYONE),
    st.tuples(st.just("exit"), ANYONE, st.sampled_from([{"code": 0}, {"code": 3}, {"signal": 9}])),
    st.tuples(st.just("kill_keeper"), ANYONE),
    st.tuples(st.just("deafen"), ANYONE),
    st.tuples(st.just("mute"), ANYONE),
    st.tuples(st.just("recover"), ANYONE),
    st.tuples(st.just("wait"), st.sampled_from([1, 10, 200])),
    st.tuples(st.just("restart")),
    st.tuples(st.just("stop_and_restart")),
    st.tuples(st.just("kill_during_start"), st.sampled_from(["before", "after"])),
    st.tuples(st.just("toggle_ground_stop")),
    st.tuples(st.just("toggle_full_disk")),
)

WATCH_MOVES = """
CREATE TEMP TABLE moves (flight TEXT, before TEXT, after TEXT);
CREATE TEMP TRIGGER watch AFTER UPDATE OF state ON main.flights WHEN old.state != new.state
BEGIN INSERT INTO moves VALUES (new.id, old.state, new.state); END;
"""


@dataclass
class Play:
    """A tower to which steps happen. Each step may be senseless at its moment; then it changes nothing."""

    scene: Scene
    tower: AsyncExitStack = field(default_factory=AsyncExitStack)
    disk: ExitStack = field(default_factory=ExitStack)
    is_full: bool = False

    async def begin(self) -> None:
        self.scene.on_open = lambda store: store._writer.executescript(WATCH_MOVES)
        await self.tower.enter_async_context(
            self.scene.tower(*AGENTS, also=[holds.watch, keep_seen], routes=ROUTES, max_concurrent_runs=SLOTS)
        )

    async def end(self) -> None:
        self.heal_disk()
        moves = await self.scene.now.store.write(_moves)
        assert [move for move in moves if FlightState(move[2]) not in MOVES[FlightState(move[1])]] == []
        await self.tower.aclose()
        self.scene.keepers.before = self.scene.keepers.after = None

    async def restart(self) -> None:
        await self.end()
        await self.begin()

    async def stop_and_restart(self) -> None:
        self.scene.now.tasks.start_soon(stopping.stop_all, self.scene.now)
        await later(5)
        await self.restart()

    async def kill_during_start(self, moment: str) -> None:
        setattr(self.scene.keepers, moment, lambda _: anyio.sleep_forever())
        await self.send("coder")
        await self.restart()

    async def send(self, to: str) -> None:
        await self.scene.send(to)

    async def hand_on(self, which: int) -> None:
        found = [run for run in await self.runs() if run.agent == "coder" and run.ended_at is None]
        if found:
            await self.scene.send("tester", run=found[which % len(found)])

    async def deliver(self, which: int) -> None:
        found = [run for run in await self.runs() if run.agent in JOIN.senders and run.ended_at is None]
        if found:
            await self.scene.send("editor", run=found[which % len(found)])

    async def cancel(self, which: int) -> None:
        found = await self.flights()
        if found:
            await FlightVerbs(self.scene.now).cancel(ANN, found[which % len(found)].id)

    async def recover(self, which: int) -> None:
        found = await self.runs()
        if found:
            run = found[which % len(found)]
            await again.by_a_person(self.scene.now, run, person="ann", note=None, force=True)

    async def exit(self, which: int, end: dict[str, int]) -> None:
        self.with_keeper(which, lambda keeper: keeper.end(**end))

    async def kill_keeper(self, which: int) -> None:
        self.with_keeper(which, ScriptedKeeper.die)

    async def deafen(self, which: int) -> None:
        self.with_keeper(which, lambda keeper: setattr(keeper, "is_deaf", True))

    async def mute(self, which: int) -> None:
        self.with_keeper(which, lambda keeper: setattr(keeper, "is_mute", not keeper.is_mute))

    async def wait(self, seconds: int) -> None:
        await later(seconds)

    async def toggle_ground_stop(self) -> None:
        if self.scene.now.ground_stop is None:
            await ground_stop.engage(self.scene.now, by="ann", why="")
        else:
            await ground_stop.release(self.scene.now)

    async def toggle_full_disk(self) -> None:
        if self.is_full:
            self.heal_disk()
        else:
            self.disk.enter_context(self.scene.full_disk())
            self.is_full = True

    def heal_disk(self) -> None:
        self.disk.close()
        self.is_full = False

    def with_keeper(self, which: int, act: Callable[[ScriptedKeeper], object]) -> None:
        alive = [keeper for keeper in self.scene.keepers.started.values() if keeper.is_alive]
        if alive:
            act(alive[which % len(alive)])

    async def flights(self) -> list[Flight]:
        found: list[Flight] = await self.scene.read(flights.listing, limit=1000)
        return found

    async def runs(self) -> list[Run]:
        found: list[Run] = await self.scene.read(runs.listing, every=True, limit=1000)
        return found

    async def look(self) -> None:
        """What holds at every moment."""
        told = {run.id: run.flights for run in await self.runs()}
        at_work = [
            flight for run, keeper in self.scene.keepers.started.items() if keeper.is_alive for flight in told[run]
        ]
        assert len(set(at_work)) == len(at_work), "a flight has two runs at work"
        begun: set[str] = set()
        for run, keeper in self.scene.keepers.started.items():
            payload = (keeper.folder / "payload.md").read_text()
            assert ("## Tower: handover" in payload) is bool(begun & set(told[run]))
            begun |= set(told[run])

    async def let_everything_end(self) -> None:
        """Remove every obstacle, and let every program succeed until there is no more to do."""
        await self.restart()
        await ground_stop.release(self.scene.now)
        while any(flight.state in MOVING for flight in await self.flights()):
            await later(200)
            for keeper in self.scene.keepers.started.values():
                keeper.is_mute = False
                if keeper.is_alive:
                    keeper.end(0)
            await later(1)

    async def assert_all_is_told(self) -> None:
        """What holds in the end."""
        self.scene.assert_free()
        every = await self.runs()
        assert all(run.ended_at is not None and run.outcome is not None for run in every)
        for flight in await self.flights():
            started = [
                run for run in every if run.itinerary == flight.itinerary and run.id in self.scene.keepers.started
            ]
            assert (await self.scene.itinerary(flight.id)).runs_started == len(started)
        await self.assert_no_join_is_forgotten()
        assert {run.id for run in every if run.outcome is Outcome.REFUSED}.isdisjoint(self.scene.keepers.started)

    async def assert_no_join_is_forgotten(self) -> None:
        """What is parked waits for what a person can still bring about; else it was let through, or given up."""
        every = await self.flights()
        for chain in {flight.itinerary for flight in every if flight.state is FlightState.PARKED}:
            states = {flight.state for flight in every if flight.itinerary == chain}
            assert states & {FlightState.HELD, FlightState.HALTED}


def _moves(connection: Connection) -> list[tuple[str, str, str]]:
    return [tuple(row) for row in connection.execute("SELECT * FROM temp.moves")]


@settings(max_examples=60)
@given(st.lists(STEPS, min_size=1, max_size=25))
def test_in_any_order_the_promises_hold(steps: list[tuple[Any, ...]]) -> None:
    async def play() -> None:
        with empty_scene() as scene:
            it = Play(scene)
            await it.begin()
            try:
                for name, *arguments in steps:
                    # What is refused at this moment (over, disk full, no hops) is refused, and nothing else happens.
                    with suppress(TowerError):
                        await getattr(it, name)(*arguments)
                    await idle()
                    await it.look()
                await it.let_everything_end()
                await it.look()
                await it.assert_all_is_told()
            finally:
                await it.end()

    anyio.run(play, backend="trio", backend_options=jumping_clock())
