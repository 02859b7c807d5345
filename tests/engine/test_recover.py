"""What a tower does about runs that an earlier one left open, and about work that waits for a person's word."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import anyio
import pytest

from tower.control.flights import FlightVerbs
from tower.control.itineraries import ItineraryVerbs
from tower.core.errors import ConflictError
from tower.core.factory import RecoveryPolicy
from tower.core.launch import KeeperPlan
from tower.core.states import Cause, HeldReason, Interruption, Outcome
from tower.engine import again, conduct, evidence, ground_stop, recover, unstarted
from tower.engine.presence import EVERY_SEC, keep_seen
from tower.store import runs
from tower.system.runrecords import read_start

from .scripted import ANN, EPOCH, Scene, ScriptedKeeper, agent, idle, later

pytestmark = pytest.mark.anyio

CODER = agent("coder")


async def running(scene: Scene) -> tuple[str, ScriptedKeeper]:
    """A flight whose run is alive when its tower is killed."""
    async with scene.tower(CODER):
        flight = await scene.send("coder")
        await later(7)
        return flight, await scene.keeper(flight)


async def test_a_living_keeper_is_watched_again_as_if_nothing_had_happened(scene: Scene) -> None:
    flight, keeper = await running(scene)
    async with scene.tower(CODER) as tower:
        run = await scene.run(flight)
        assert (run.state, run.started_at, (await scene.flight(flight)).state) == ("running", EPOCH, "running")
        assert list(tower.live) == [run.id]
        assert (await scene.read(runs.by_token, run.token_sha256)).id == run.id
        await keeper.prints("done\n")
        await keeper.exits(0)
        assert (await scene.flight(flight)).outcome == Outcome.SUCCEEDED
        assert len(await scene.runs(flight)) == 1
        assert [event.type for event in await scene.events() if event.run == run.id] == [
            "run.claimed",
            "run.started",
            "run.adopted",
            "run.ended",
            "flight.landed",
        ]
        scene.assert_free()


async def test_what_ended_while_no_tower_lived_is_settled_as_it_ended_when_it_ended_with_its_cost(scene: Scene) -> None:
    flight, keeper = await running(scene)
    await later(100)
    await keeper.reports(cost_usd=2)
    await keeper.exits(0)
    await later(1000)
    async with scene.tower(CODER):
        run = await scene.run(flight)
        assert (run.outcome, run.ended_at, run.cost) == ("succeeded", EPOCH + 107, 2_000_000)
        assert (await scene.flight(flight)).state == "landed"
        assert (await scene.itinerary(flight)).fuel_spent == 2_000_000
        scene.assert_free()


async def test_what_vanished_is_interrupted_when_it_was_last_seen_and_the_policy_decides(scene: Scene) -> None:
    async with scene.tower(CODER, also=[keep_seen]):
        flight = await scene.send("coder")
        await later(3 * EVERY_SEC + 1)
        keeper = await scene.keeper(flight)
    await keeper.vanishes()
    await later(1000)
    async with scene.tower(CODER, is_dispatching=False):
        run, queued = await scene.run(flight), await scene.flight(flight)
        assert (run.outcome, run.interruption) == ("interrupted", Interruption.TOWER_RESTART)
        assert run.ended_at == EPOCH + 3 * EVERY_SEC
        assert (queued.state, queued.attempt, queued.cause) == ("queued", 2, Cause.RECOVERY)
        scene.assert_free()


async def test_processes_of_a_run_without_a_keeper_are_ended_before_it_is_repeated(scene: Scene) -> None:
    flight, keeper = await running(scene)
    with left_by(keeper.plan.run) as left:
        await keeper.vanishes()
        async with scene.tower(CODER, is_dispatching=False):
            assert left.wait(0) == -9
            assert (await scene.flight(flight)).state == "queued"
            scene.assert_free()


@contextmanager
def left_by(run: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that a run left behind."""
    process = subprocess.Popen(["sleep", "600"], env={"LAYOVER_RUN_ID": run}, start_new_session=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


async def test_processes_that_cannot_be_ended_hold_the_flight(scene: Scene) -> None:
    async def in_vain(*_: object) -> tuple[int, ...]:
        await anyio.lowlevel.checkpoint()
        return (4242,)

    flight, keeper = await running(scene)
    await keeper.vanishes()
    scene.patch.setattr(recover, "end_survivors", in_vain)
    scene.patch.setattr(evidence, "end_survivors", in_vain)
    async with scene.tower(CODER):
        held = await scene.flight(flight)
        assert (held.state, held.held_reason) == ("held", HeldReason.UNCONFIRMED)
        assert "4242" in (held.reason or "")
        scene.assert_free()


async def test_a_pid_that_another_program_has_by_now_counts_as_gone_and_is_left_alone(scene: Scene) -> None:
    flight, keeper = await running(scene)
    async with scene.tower(CODER, is_dispatching=False) as tower:
        process = await scene.process(flight)
        await tower.store.write(lambda connection: runs.update_process(connection, process.id, keeper_ticks=1, pid=1))
    async with scene.tower(CODER, is_dispatching=False):
        assert (await scene.run(flight)).interruption == Interruption.TOWER_RESTART
        assert keeper.is_alive


async def test_after_a_reboot_nothing_of_it_can_be_alive(scene: Scene) -> None:
    flight, keeper = await running(scene)
    scene.patch.setattr("tower.system.procfs.boot_id", lambda: "of another boot")
    async with scene.tower(CODER, is_dispatching=False):
        assert (await scene.run(flight)).interruption == Interruption.TOWER_RESTART
        assert (await scene.flight(flight)).state == "queued"
        assert keeper.is_alive


async def for_ever(*_: object) -> None:
    await anyio.sleep_forever()


async def killed_while(scene: Scene, moment: Callable[[KeeperPlan], Awaitable[None]] | None) -> str:
    """A flight that was claimed when its tower was killed: before its folder was made, or before its `start` was."""
    scene.keepers.before = moment
    with scene.patch.context() as patch:
        if moment is None:
            patch.setattr("tower.engine.places.make", for_ever)
        async with scene.tower(CODER):
            flight = await scene.send("coder")
            assert (await scene.flight(flight)).state == "starting"
    scene.keepers.before = None
    return flight


@pytest.mark.parametrize("moment", [None, for_ever], ids=["no folder", "no start"])
async def test_what_was_claimed_and_never_spawned_is_queued_again_as_it_was(
    scene: Scene, moment: Callable[[KeeperPlan], Awaitable[None]] | None
) -> None:
    flight = await killed_while(scene, moment)
    async with scene.tower(CODER, is_dispatching=False):
        queued, run = await scene.flight(flight), await scene.run(flight)
        assert (queued.state, queued.attempt, queued.cause) == ("queued", 1, Cause.DISPATCH)
        assert (run.outcome, run.reason) == (Outcome.REFUSED, "the tower went away before it began")
        assert (await scene.itinerary(flight)).runs_started == 0
        folder = Path((await scene.process(flight)).folder)
        start = read_start(folder)
        assert folder.exists() is (moment is not None)
        assert start is None or start.void
        scene.assert_free()


async def test_a_keeper_that_makes_its_start_just_before_it_is_forbidden_has_decided(scene: Scene) -> None:
    flight = await killed_while(scene, for_ever)
    (plan,) = scene.keepers.plans
    forbid = unstarted.void_start

    def too_late(folder: str) -> bool:
        if plan.run not in scene.keepers.started:
            scene.keepers.started[plan.run] = ScriptedKeeper(plan, lambda: EPOCH)
            assert scene.keepers.started[plan.run].claim()
        return forbid(folder)

    scene.patch.setattr(unstarted, "void_start", too_late)
    async with scene.tower(CODER):
        assert (await scene.flight(flight)).state == "running"
        await (await scene.keeper(flight)).exits(0)
        assert (await scene.flight(flight)).outcome == Outcome.SUCCEEDED
        assert len(await scene.runs(flight)) == 1


async def killed_before_the_record(scene: Scene) -> tuple[str, ScriptedKeeper]:
    """A flight whose tower was killed after its keeper had made `start`, and before the store knew of it."""
    scene.keepers.after = for_ever
    async with scene.tower(CODER):
        flight = await scene.send("coder")
        keeper = await scene.keeper(flight)
        assert (await scene.process(flight)).keeper_pid is None
    scene.keepers.after = None
    return flight, keeper


async def test_a_start_that_the_store_never_knew_of_is_told_from_its_file(scene: Scene) -> None:
    flight, keeper = await killed_before_the_record(scene)
    async with scene.tower(CODER):
        assert (await scene.flight(flight)).state == "running"
        assert (await scene.process(flight)).keeper_pid == keeper.pid
        await keeper.exits(0)
        assert (await scene.flight(flight)).outcome == Outcome.SUCCEEDED


async def test_a_start_that_the_store_never_knew_of_is_in_doubt_when_its_keeper_is_gone(scene: Scene) -> None:
    flight, keeper = await killed_before_the_record(scene)
    await keeper.vanishes()
    async with scene.tower(CODER, is_dispatching=False):
        assert (await scene.flight(flight)).attempt == 2
        assert (await scene.run(flight)).started_at is not None


@pytest.mark.parametrize(
    "spoil",
    [
        Path.unlink,
        lambda start: start.write_text("nonsense"),
        lambda start: start.write_text(start.read_text().replace('"void":false', '"void":true')),
    ],
    ids=["removed", "nonsense", "forged"],
)
async def test_a_program_that_spoils_its_start_is_not_started_twice(
    scene: Scene, spoil: Callable[[Path], object]
) -> None:
    flight, keeper = await running(scene)
    spoil(keeper.folder / "start")
    async with scene.tower(CODER):
        assert (await scene.flight(flight)).state == "running"
        assert len(await scene.runs(flight)) == 1
        await keeper.exits(0)
        assert (await scene.flight(flight)).outcome == Outcome.SUCCEEDED


async def test_a_start_that_nobody_can_read_any_more_goes_through_the_policy(scene: Scene) -> None:
    flight, keeper = await killed_before_the_record(scene)
    await keeper.vanishes()
    (keeper.folder / "start").write_text("nonsense")
    async with scene.tower(CODER, is_dispatching=False):
        assert (await scene.flight(flight)).attempt == 2
        scene.assert_free()


async def test_a_start_whose_folder_a_power_cut_took_is_in_doubt(scene: Scene) -> None:
    flight, keeper = await killed_before_the_record(scene)
    await keeper.vanishes()
    shutil.rmtree(keeper.folder)
    async with scene.tower(CODER, is_dispatching=False):
        queued, run = await scene.flight(flight), await scene.run(flight)
        assert (queued.state, queued.attempt, queued.cause) == ("queued", 2, Cause.RECOVERY)
        assert (run.outcome, run.started_at) == (Outcome.INTERRUPTED, run.claimed_at)
        assert (await scene.itinerary(flight)).runs_started == 1
        scene.assert_free()


async def test_the_work_of_an_agent_that_was_removed_waits_for_a_person(scene: Scene) -> None:
    flight, keeper = await running(scene)
    await keeper.vanishes()
    async with scene.tower():
        held = await scene.flight(flight)
        assert (held.state, held.held_reason) == ("held", HeldReason.RECOVERY)
        scene.assert_free()


async def test_a_removed_agent_that_is_alive_is_watched_to_its_end(scene: Scene) -> None:
    flight, keeper = await running(scene)
    async with scene.tower() as tower:
        assert len(tower.seats()) == 1
        await keeper.exits(0)
        assert (await scene.flight(flight)).outcome == Outcome.SUCCEEDED


async def test_a_keeper_that_does_not_answer_is_asked_again_and_keeps_nobody_waiting(scene: Scene) -> None:
    flight, keeper = await running(scene)
    keeper.is_mute = True
    async with scene.tower(CODER) as tower:
        await later(600)
        assert (await scene.flight(flight)).state == "running"
        other = await scene.send("coder")
        assert (await scene.flight(other)).state == "running"
        live = tower.live[keeper.plan.run]
        await conduct.stop(tower, live, "cancelled")
        assert keeper.asked == []
        keeper.is_mute = False
        await later(recover.MUTE_SEC)
        assert keeper.asked == ["cancelled"]
        assert (await scene.flight(flight)).state == "cancelled"


async def test_a_keeper_that_dies_unheard_leaves_an_interruption(scene: Scene) -> None:
    flight, keeper = await running(scene)
    keeper.is_mute = True
    async with scene.tower(CODER) as tower:
        await keeper.vanishes()
        await later(2)
        assert (await scene.run(flight)).interruption == Interruption.TOWER_RESTART
        assert tower.live == {}


async def test_a_request_to_stop_survives_the_tower_that_made_it(scene: Scene) -> None:
    async with scene.tower(CODER) as tower:
        flight = await scene.send("coder")
        keeper = await scene.keeper(flight)
        keeper.is_deaf = True
        await conduct.stop_every(tower, "cancelled")
    keeper.is_deaf = False
    async with scene.tower(CODER):
        assert keeper.asked == ["cancelled", "cancelled"]
        assert (await scene.flight(flight)).state == "cancelled"


async def test_a_keeper_of_another_version_is_watched_although_it_cannot_be_asked(scene: Scene) -> None:
    async with scene.tower(CODER) as tower:
        flight = await scene.send("coder")
        keeper = await scene.keeper(flight)
        keeper.is_deaf = True
        await conduct.stop_every(tower, "cancelled")
    keeper.protocol = 99
    async with scene.tower(CODER) as tower:
        assert len(tower.live) == 1
        await keeper.exits(0)
        assert (await scene.flight(flight)).outcome == Outcome.SUCCEEDED


async def test_an_adoption_that_cannot_be_written_down_is_written_down_later(scene: Scene) -> None:
    flight, keeper = await running(scene)
    keeper.is_mute = True
    async with scene.tower(CODER):
        with scene.full_disk():
            keeper.is_mute = False
            await later(60)
        await later(1)
        await keeper.exits(0)
        assert (await scene.flight(flight)).outcome == Outcome.SUCCEEDED


async def test_more_open_runs_than_are_looked_into_at_once_are_all_settled(scene: Scene) -> None:
    many = 3 * recover.AT_ONCE
    async with scene.tower(CODER, max_concurrent_runs=many) as tower:
        for _ in range(many):
            await scene.send("coder")
        assert len(tower.live) == many
    for keeper in scene.keepers.started.values():
        keeper.end(0)
    async with scene.tower(CODER):
        assert sum(event.type == "flight.landed" for event in await scene.events()) == many
        scene.assert_free()


async def test_a_defect_in_the_task_of_a_run_ends_neither_the_tower_nor_leaves_the_run_open(scene: Scene) -> None:
    """B080: what looks after a run may fail; the run is settled all the same, without a restart."""

    async def defect(*_: object, **__: object) -> None:
        await anyio.lowlevel.checkpoint()
        raise RuntimeError("a defect")

    async with scene.tower(CODER):
        flight = await scene.send("coder")
        with scene.patch.context() as patch:
            patch.setattr(conduct, "settle", defect)
            await (await scene.keeper(flight)).exits(0)
            assert (await scene.flight(flight)).state == "running"
        await later(recover.DEFECT_SEC + 1)
        assert (await scene.flight(flight)).outcome == Outcome.SUCCEEDED
        scene.assert_free()


async def interrupted(scene: Scene) -> str:
    """A flight whose run has just crashed."""
    flight = await scene.send("coder")
    await (await scene.keeper(flight)).exits(signal=9)
    return flight


MANUAL = replace(CODER, recovery=RecoveryPolicy.MANUAL)
NEVER = replace(CODER, recovery=RecoveryPolicy.NEVER)
by_ann = partial(again.by_a_person, person="ann")


async def test_a_person_starts_held_work_again_with_a_note_for_the_next_run(scene: Scene) -> None:
    async with scene.tower(MANUAL) as tower:
        flight = await interrupted(scene)
        first = await scene.run(flight)
        told = await by_ann(tower, first, note="look twice", force=False)
        assert (told.id, told.state, told.attempt, told.held_reason) == (flight, "queued", 2, None)
        await idle()
        second = await scene.run(flight)
        assert (second.attempt, second.cause, second.follows_run) == (2, Cause.RECOVERY, first.id)
        assert "look twice" in ((await scene.keeper(flight)).folder / "payload.md").read_text()
        (event,) = [event for event in await scene.events() if event.type == "flight.recovered"]
        assert event.data == {"by": "ann"}
        with pytest.raises(ConflictError, match="its flight is running"):
            await by_ann(tower, first, note=None, force=True)


async def test_spent_recoveries_need_force_and_get_one_more_attempt(scene: Scene) -> None:
    async with scene.tower(NEVER) as tower:
        flight = await interrupted(scene)
        for attempt in (2, 3):
            run = await scene.run(flight)
            with pytest.raises(ConflictError) as refused:
                await by_ann(tower, run, note=None, force=False)
            assert refused.value.code == "recoveries-spent"
            assert f"`tower recover {run.id} --force`" in refused.value.hint
            await by_ann(tower, run, note=None, force=True)
            await idle()
            assert (await scene.run(flight)).attempt == attempt
            await (await scene.keeper(flight)).exits(signal=9)
            assert (await scene.flight(flight)).state == "dead"
        with pytest.raises(ConflictError):
            await by_ann(tower, run, note=None, force=True)  # of an earlier run nothing waits any more


async def test_what_has_landed_cannot_be_recovered(scene: Scene) -> None:
    async with scene.tower(CODER) as tower:
        flight = await scene.send("coder")
        await (await scene.keeper(flight)).exits(0)
        with pytest.raises(ConflictError) as refused:
            await by_ann(tower, await scene.run(flight), note=None, force=True)
        assert refused.value.code == "nothing-to-recover"
        assert "its flight is landed" in refused.value.sentence


async def test_work_of_a_cancelled_chain_is_not_taken_up_again_and_that_is_said_at_once(scene: Scene) -> None:
    async with scene.tower(NEVER) as tower:
        flight = await interrupted(scene)
        run = await scene.run(flight)
        await ItineraryVerbs(tower).cancel(ANN, run.itinerary)
        for attempt in (
            by_ann(tower, run, note=None, force=True),
            again.retry(tower, flight, person="ann", note=None),
        ):
            with pytest.raises(ConflictError) as refused:
                await attempt
            assert refused.value.code == "chain-closed"
            assert refused.value.sentence.endswith("its itinerary was cancelled")
            assert "send anew" in refused.value.hint
        assert (await scene.flight(flight)).state == "dead"


async def test_a_chain_without_a_run_left_takes_nothing_up_again(scene: Scene) -> None:
    async with scene.tower(NEVER, max_runs=1) as tower:
        flight = await interrupted(scene)
        with pytest.raises(ConflictError, match="has had its one run"):
            await by_ann(tower, await scene.run(flight), note=None, force=True)


async def test_what_a_person_cancels_while_the_tower_stops_is_not_begun_again(scene: Scene) -> None:
    async with scene.tower(CODER) as tower:
        flight = await scene.send("coder")
        keeper = await scene.keeper(flight)
        keeper.is_deaf = True
        await conduct.stop_every(tower, "stop")
        await FlightVerbs(tower).cancel(ANN, flight)
        await conduct.stop_every(tower, "stop")
        assert (await scene.run(flight)).stopping == "cancelled"
        # The keeper keeps the first word that it heard.
        await keeper.exits(signal=15, stopping="stop")
        assert (await scene.flight(flight)).state == "cancelled"


async def test_only_a_person_starts_again_what_a_ground_stop_ended_one_by_one_or_all(scene: Scene) -> None:
    async with scene.tower(CODER) as tower:
        assert await again.all_halted(tower, person="ann") == 0
        one, two, three = [await scene.send("coder") for _ in range(3)]
        await (await scene.keeper(three)).exits(0)
        await ground_stop.engage(tower, by="ann", why="smoke")
        await idle()
        await ground_stop.release(tower)
        await later(1000)
        assert [(await scene.flight(flight)).state for flight in (one, two, three)] == ["halted", "halted", "landed"]
        await by_ann(tower, await scene.run(one), note=None, force=False)
        assert await again.all_halted(tower, person="ann") == 1
        await idle()
        assert [(await scene.flight(flight)).state for flight in (one, two, three)] == ["running", "running", "landed"]
        assert (await scene.run(two)).cause == Cause.RECOVERY
        assert "a ground stop ended all runs" in ((await scene.keeper(two)).folder / "payload.md").read_text()


async def test_last_seen_is_written_only_for_the_living_and_a_full_disk_does_not_matter(scene: Scene) -> None:
    async with scene.tower(CODER, also=[keep_seen]):
        flight = await scene.send("coder")
        await later(EVERY_SEC)
        assert (await scene.process(flight)).last_seen_at == EPOCH + EVERY_SEC
        with scene.full_disk():
            await later(EVERY_SEC)
        await later(EVERY_SEC)
        assert (await scene.process(flight)).last_seen_at == EPOCH + 3 * EVERY_SEC
        await (await scene.keeper(flight)).exits(0)
        await later(10 * EVERY_SEC)
        assert (await scene.process(flight)).last_seen_at == EPOCH + 3 * EVERY_SEC
