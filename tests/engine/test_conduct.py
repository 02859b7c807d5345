"""The conduct of a run: every way in which its start can fail, and being asked to end at every moment of it."""

from __future__ import annotations

import errno
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import pytest

from tower.core.errors import BusyError
from tower.core.factory import Access
from tower.core.launch import KeeperPlan
from tower.core.states import Cause, HeldReason, Outcome
from tower.engine import conduct, ground_stop, places, stopping, unstarted
from tower.engine.tower import RETRY_SEC, Tower
from tower.store import circuits
from tower.system.keeping import KeeperLostError, KeeperVoidError, StartFailedError
from tower.system.runrecords import read_start, void_start

from .scripted import Scene, agent, idle, later

pytestmark = pytest.mark.anyio

Act = Callable[[KeeperPlan], Awaitable[None]]


def raising(error: Callable[[str], Exception]) -> Act:
    async def act(plan: KeeperPlan) -> None:
        await anyio.lowlevel.checkpoint()
        raise error(plan.run)

    return act


async def test_a_place_that_cannot_be_made_holds_the_flight_and_it_is_tried_again(scene: Scene) -> None:
    async with scene.tower(agent("reader", access=Access.READ_ONLY), max_concurrent_runs=1):
        for _ in range(2):  # the slot of the first is free for the second
            flight = await scene.send("reader")
            held, run = await scene.flight(flight), await scene.run(flight)
            assert (held.state, held.held_reason, run.outcome) == ("held", "environment", Outcome.REFUSED)
            assert (held.reason or "").startswith(f"cannot take a snapshot of {scene.tree}: it is not in a git")
            assert run.reason == held.reason
            assert held.release_at is not None
            assert held.attempt == 1
            assert (await scene.itinerary(flight)).runs_started == 0
        assert scene.keepers.plans == []
        scene.assert_free()


async def test_agents_get_the_umask_that_is_configured_else_that_which_the_tower_was_started_with(scene: Scene) -> None:
    async with scene.tower(agent("coder")) as tower:
        assert (await scene.keeper(await scene.send("coder"))).plan.umask == 0o022
        tower.factory = scene.factory(agent("coder"), umask="077")
        assert (await scene.keeper(await scene.send("coder"))).plan.umask == 0o077


async def test_a_work_dir_that_is_gone_holds_the_flight_before_anything_is_claimed(scene: Scene) -> None:
    async with scene.tower(agent("coder", work_dir=str(scene.tree / "gone"))):
        flight = await scene.send("coder")
        held = await scene.flight(flight)
        assert (held.state, held.held_reason, held.release_at) == ("held", "environment", None)
        assert f"there is no folder {scene.tree / 'gone'}" in (held.reason or "")
        assert (await scene.itinerary(flight)).runs_started == 0
        scene.assert_free()


async def test_a_folder_that_cannot_be_written_ends_the_flight_in_one_sentence(scene: Scene) -> None:
    scene.state.hangar("coder").write_text("a file in the place of a folder")
    async with scene.tower(agent("coder")):
        landed = await scene.flight(await scene.send("coder"))
        assert (landed.state, landed.outcome) == ("landed", Outcome.FAILED)
        assert (landed.reason or "").startswith("cannot write the run's folder")
        scene.assert_free()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EMFILE])
async def test_a_passing_want_queues_the_flight_again_as_it_was(scene: Scene, number: int) -> None:
    wanting = [True]

    def write(path: Path, text: str) -> None:
        if wanting:
            raise OSError(number, os.strerror(number))
        path.write_text(text)

    def void(folder: str) -> bool:
        if wanting:
            raise OSError(number, os.strerror(number))
        return void_start(folder)

    scene.patch.setattr(conduct, "_write_private", write)
    scene.patch.setattr(unstarted, "void_start", void)
    async with scene.tower(agent("coder")):
        flight = await scene.send("coder")
        await later(60)
        assert (await scene.flight(flight)).state == "starting"
        wanting.clear()
        await later(RETRY_SEC)
        queued = await scene.flight(flight)
        assert (queued.state, queued.attempt, queued.cause) == ("queued", 1, Cause.DISPATCH)
        scene.assert_free()
        await later(unstarted.PAUSE_SEC)
        assert (await scene.flight(flight)).state == "running"
        assert (await scene.itinerary(flight)).runs_started == 1


@pytest.mark.parametrize(
    "error",
    [
        lambda run: StartFailedError(run, "keeper", "EAGAIN Resource temporarily unavailable"),
        KeeperLostError,
        lambda _: BusyError("x", "cannot now"),
    ],
    ids=["no process", "keeper lost", "busy"],
)
async def test_a_start_that_provably_never_was_is_tried_again_without_a_handover(
    scene: Scene, error: Callable[[str], Exception]
) -> None:
    scene.keepers.before = raising(error)
    async with scene.tower(agent("coder"), max_concurrent_runs=1):
        flight = await scene.send("coder")
        queued = await scene.flight(flight)
        assert (queued.state, queued.attempt, queued.cause) == ("queued", 1, Cause.DISPATCH)
        scene.assert_free()
        (plan,) = scene.keepers.plans
        start = read_start(plan.folder)
        assert start is not None
        assert start.void
        scene.keepers.before = None
        await later(unstarted.PAUSE_SEC)
        assert [run.outcome for run in await scene.runs(flight)] == [Outcome.REFUSED, None]
        assert "handover" not in ((await scene.keeper(flight)).folder / "payload.md").read_text()
        assert (await scene.itinerary(flight)).runs_started == 1


@pytest.mark.parametrize("error", [KeeperLostError, lambda run: StartFailedError(run, "record", "ENOSPC")])
async def test_a_start_that_is_in_doubt_goes_through_the_policy(
    scene: Scene, error: Callable[[str], Exception]
) -> None:
    scene.keepers.after = raising(error)
    async with scene.tower(agent("coder")):
        flight = await scene.send("coder")
        await later(1)
        queued = await scene.flight(flight)
        assert (queued.state, queued.attempt, queued.cause) == ("queued", 2, Cause.RECOVERY)
        assert (await scene.run(flight)).interruption == "lost"
        scene.assert_free()


@pytest.mark.parametrize(
    ("start_error", "state", "outcome"),
    [
        ("exec: ENOENT No such file or directory", "held", Outcome.UNAVAILABLE),
        ("exec: EACCES Permission denied", "landed", Outcome.FAILED),
    ],
)
async def test_a_program_that_could_not_be_executed_is_judged_by_its_record(
    scene: Scene, start_error: str, state: str, outcome: Outcome
) -> None:
    async def fail(plan: KeeperPlan) -> None:
        await anyio.lowlevel.checkpoint()
        scene.keepers.started[plan.run].end(start_error=start_error)
        raise StartFailedError(plan.run, *start_error.split(": "))

    scene.keepers.after = fail
    async with scene.tower(agent("coder")):
        flight = await scene.send("coder")
        assert (await scene.flight(flight)).state == state
        run = await scene.run(flight)
        assert (run.outcome, run.exit_code) == (outcome, None)
        assert start_error in (run.reason or "")
        scene.assert_free()


@pytest.mark.parametrize("is_killed", [False, True], ids=["", "the tower is killed before it has settled it"])
async def test_a_machine_without_room_for_a_program_is_no_wall_of_its_runner(scene: Scene, is_killed: bool) -> None:
    """A keeper was there, and says that it could not start the program: what else uses the runner goes on."""
    started: list[str] = []

    async def fail(plan: KeeperPlan) -> None:
        await anyio.lowlevel.checkpoint()
        if started:
            return
        started.append(plan.run)
        scene.keepers.started[plan.run].end(start_error="log: EMFILE Too many open files")
        if is_killed:
            await anyio.sleep_forever()
        raise StartFailedError(plan.run, "log", "EMFILE Too many open files")

    scene.keepers.after = fail
    async with scene.tower(agent("coder")):
        flight = await scene.send("coder")
        await later(1)
    async with scene.tower(agent("coder")) as tower:
        found = await scene.flight(flight)
        assert (found.state, found.attempt, found.cause) == ("queued", 1, Cause.DISPATCH)
        assert "EMFILE" in (found.reason or "")
        assert await tower.store.read(circuits.every) == {}
        await later(unstarted.PAUSE_SEC)
        assert [run.outcome for run in await scene.runs(flight)] == [Outcome.REFUSED, None]
        assert (await scene.itinerary(flight)).runs_started == 1
        assert "handover" not in ((await scene.keeper(flight)).folder / "payload.md").read_text()


async def test_a_start_that_somebody_forbade_is_no_start(scene: Scene) -> None:
    async def forbid(plan: KeeperPlan) -> None:
        await anyio.lowlevel.checkpoint()
        assert void_start(plan.folder)
        raise KeeperVoidError(plan.run)

    scene.keepers.before = forbid
    async with scene.tower(agent("coder")):
        flight = await scene.flight(await scene.send("coder"))
        assert (flight.state, flight.attempt, flight.cause) == ("queued", 1, Cause.DISPATCH)
        scene.assert_free()


async def test_a_variable_that_goes_away_at_the_last_moment_holds_the_flight(scene: Scene) -> None:
    credential = scene.tree / "API_KEY"
    credential.write_text("s3cr3t")
    needs = agent("coder", env_from={"API_KEY": "agents.coder.env_from"})
    made = places.make

    async def make(*arguments: object) -> object:
        credential.unlink()
        return await made(*arguments)  # type: ignore[arg-type]

    scene.patch.setattr(places, "make", make)
    async with scene.tower(needs, environ={"CREDENTIALS_DIRECTORY": str(scene.tree)}):
        flight = await scene.send("coder")
        scene.assert_free()
        await later(unstarted.PAUSE_SEC)
        assert (await scene.flight(flight)).held_reason == HeldReason.ENVIRONMENT
        assert (await scene.itinerary(flight)).runs_started == 0


async def cancel(tower: Tower) -> None:
    (live,) = tower.live.values()
    await conduct.stop(tower, live, "cancelled")


async def halt(tower: Tower) -> None:
    await ground_stop.engage(tower, by="ann", why="smoke")


async def go_down(tower: Tower) -> None:
    tower.tasks.start_soon(stopping.stop_all, tower)
    await idle()


WORDS = pytest.mark.parametrize(
    ("end", "unstarted", "started"),
    [
        (cancel, ("cancelled", 1), ("cancelled", 1)),
        (halt, ("held", 1), ("halted", 1)),
        (go_down, ("queued", 1), ("queued", 2)),
    ],
)


@WORDS
async def test_asked_to_end_while_its_place_is_made_it_never_starts(
    scene: Scene, end: Callable[[Tower], Awaitable[None]], unstarted: tuple[str, int], started: object
) -> None:
    made, gate = places.make, anyio.Event()

    async def make(*arguments: object) -> object:
        await gate.wait()
        return await made(*arguments)  # type: ignore[arg-type]

    scene.patch.setattr(places, "make", make)
    async with scene.tower(agent("coder")) as tower:
        flight = await scene.send("coder")
        await end(tower)
        gate.set()
        await idle()
        after = await scene.flight(flight)
        assert (after.state, after.attempt) == unstarted
        assert (await scene.itinerary(flight)).runs_started == 0
        assert scene.keepers.plans == []
        scene.assert_free()


@WORDS
async def test_asked_to_end_while_its_keeper_starts_it_is_ended_as_soon_as_it_can_be_asked(
    scene: Scene, end: Callable[[Tower], Awaitable[None]], unstarted: object, started: tuple[str, int]
) -> None:
    gate = anyio.Event()

    async def wait(_: KeeperPlan) -> None:
        await gate.wait()

    scene.keepers.before = wait
    async with scene.tower(agent("coder")) as tower:
        flight = await scene.send("coder")
        await end(tower)
        gate.set()
        await idle()
        after = await scene.flight(flight)
        assert (after.state, after.attempt) == started
        assert len((await scene.keeper(flight)).asked) == 1
        scene.assert_free()


@WORDS
async def test_asked_to_end_while_it_runs_it_ends_as_that_word_says(
    scene: Scene, end: Callable[[Tower], Awaitable[None]], unstarted: object, started: tuple[str, int]
) -> None:
    async with scene.tower(agent("coder")) as tower:
        flight = await scene.send("coder")
        await end(tower)
        await idle()
        after = await scene.flight(flight)
        assert (after.state, after.attempt) == started
        assert (await scene.run(flight)).stopping == (await scene.keeper(flight)).asked[0]
        scene.assert_free()


async def test_a_run_that_ends_by_itself_before_it_hears_the_request_is_judged_by_how_it_ended(scene: Scene) -> None:
    async with scene.tower(agent("coder")) as tower:
        flight = await scene.send("coder")
        keeper = await scene.keeper(flight)
        keeper.is_deaf = True
        await cancel(tower)
        await keeper.exits(0)
        assert (await scene.flight(flight)).outcome == Outcome.SUCCEEDED


async def test_a_stop_on_a_full_disk_is_asked_all_the_same(scene: Scene) -> None:
    async with scene.tower(agent("coder")) as tower:
        flight = await scene.send("coder")
        keeper = await scene.keeper(flight)
        with scene.full_disk():
            with pytest.raises(BusyError):
                await cancel(tower)
            assert keeper.asked == ["cancelled"]
        await later(10)
        assert (await scene.flight(flight)).state == "cancelled"
        scene.assert_free()


async def test_a_start_that_cannot_be_recorded_is_recorded_later_and_its_run_left_in_peace(scene: Scene) -> None:
    disks = []

    async def fill(_: KeeperPlan) -> None:
        disks.append(scene.full_disk())
        disks[0].__enter__()

    scene.keepers.after = fill
    async with scene.tower(agent("coder")):
        flight = await scene.send("coder")
        await later(10)
        keeper = await scene.keeper(flight)
        assert (await scene.flight(flight)).state == "starting"
        assert keeper.is_alive
        disks[0].__exit__(None, None, None)
        await later(RETRY_SEC)
        assert (await scene.flight(flight)).state == "running"
        assert (await scene.process(flight)).keeper_pid == keeper.pid
        await keeper.exits(0)
        assert (await scene.flight(flight)).outcome == Outcome.SUCCEEDED
        scene.assert_free()


async def test_a_keeper_of_another_version_keeps_nobody_else_from_being_asked(scene: Scene) -> None:
    async with scene.tower(agent("coder")) as tower:
        first, second = await scene.send("coder"), await scene.send("coder")
        (await scene.keeper(first)).links[0].protocol = 99
        await conduct.stop_every(tower, "cancelled")
        await idle()
        assert (await scene.flight(first)).state == "running"
        assert (await scene.flight(second)).state == "cancelled"


async def test_growth_wakes_who_waits_for_the_run(scene: Scene) -> None:
    async with scene.tower(agent("coder")) as tower:
        flight = await scene.send("coder")
        with tower.bus.listening((await scene.run(flight)).id) as grown:
            await (await scene.keeper(flight)).prints("more\n")
            assert grown.is_set()


async def test_what_a_place_does_not_promise_is_noted_once(scene: Scene) -> None:
    async with scene.tower(agent("coder")):
        flight = await scene.send("coder")
        await (await scene.keeper(flight)).exits(0)
        notes = (await scene.run(flight)).notes
        assert any("could write to anything that the tower's user can write" in note for note in notes)
        assert len(set(notes)) == len(notes)


async def test_a_flight_that_ends_before_its_run_began_is_told_of_once(scene: Scene) -> None:
    def refuse(path: Path, _: str) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

    scene.patch.setattr(conduct, "_write_private", refuse)
    async with scene.tower(agent("coder")):
        flight = await scene.send("coder")
        assert (await scene.flight(flight)).outcome is Outcome.FAILED
        types = [event.type for event in await scene.events() if event.flight == flight]
        assert types == ["flight.queued", "run.claimed", "run.not-started", "flight.landed"]
