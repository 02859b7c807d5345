"""Settling: from what a run left behind to what becomes of its flights."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from tower.core.errors import BusyError
from tower.core.factory import Agent, RecoveryPolicy, Runner
from tower.core.states import Cause, HeldReason, Interruption, Outcome
from tower.engine import again, evidence, holds
from tower.engine.tower import RETRY_SEC
from tower.store import runs
from tower.system.files import read_regular

from .scripted import EPOCH, Scene, agent, later

pytestmark = pytest.mark.anyio

QUOTA = Runner(name="no-quota", kind="unavailable", detail="the quota is used up until Monday")
NAMED = frozenset({"timeout", "stall", "first_output", "failed"})


@pytest.mark.parametrize(
    ("end", "outcome", "interruption", "state", "reason"),
    [
        ({"code": 0}, "succeeded", None, "landed", None),
        ({"code": 3}, "failed", None, "landed", "exit code 3, and it printed nothing"),
        ({"signal": 9}, "interrupted", "crash", "queued", None),
        ({"code": 137}, "interrupted", "crash", "queued", None),
        ({"signal": 15, "limit": "timeout"}, "timed_out", "timeout", "landed", "timeout is not among"),
        ({"signal": 15, "limit": "stall"}, "stalled", "stall", "landed", "stall is not among"),
        ({"signal": 15, "limit": "first_output"}, "no_output", "first_output", "landed", "first_output is not"),
        ({"signal": 15, "limit": "orphan"}, "interrupted", "tower_restart", "queued", None),
        ({"signal": 15, "stopping": "cancelled"}, "cancelled", "cancelled", "cancelled", "a person cancelled it"),
        ({"signal": 15, "stopping": "halted"}, "halted", "ground_stop", "halted", "a ground stop ended it"),
        ({"signal": 15, "stopping": "stop"}, "interrupted", "tower_restart", "queued", None),
    ],
    ids=str,
)
async def test_an_exit_decides_the_outcome_and_what_becomes_of_the_flight(
    scene: Scene, end: dict[str, Any], outcome: str, interruption: str | None, state: str, reason: str | None
) -> None:
    async with scene.tower(agent("coder")):
        flight = await scene.send("coder")
        await later(7)
        await (await scene.keeper(flight)).exits(**end, cpu_seconds=1.5, peak_memory=4096)
        run, after = await scene.run(flight), await scene.flight(flight)
        assert (run.outcome, run.interruption, after.state) == (outcome, interruption, state)
        assert (run.exit_code, run.exit_signal) == (end.get("code"), end.get("signal"))
        assert (run.started_at, run.ended_at) == (EPOCH, EPOCH + 7)
        assert (run.cpu_seconds, run.peak_memory) == (1.5, 4096)
        assert (reason or "") in (after.reason or "")
        if state == "queued":
            assert (after.attempt, after.cause, after.follows_run) == (2, Cause.RECOVERY, run.id)
        else:
            assert (after.attempt, after.outcome, after.ended_at) == (1, outcome, EPOCH + 7)
        scene.assert_free()


@pytest.mark.parametrize(
    "end",
    [{"code": 3}, {"signal": 15, "limit": "timeout"}, {"signal": 15, "limit": "stall"}],
    ids=["failed", "timeout", "stall"],
)
async def test_what_is_named_in_recover_on_is_repeated(scene: Scene, end: dict[str, Any]) -> None:
    async with scene.tower(agent("coder", recover_on=NAMED)):
        flight = await scene.send("coder")
        await (await scene.keeper(flight)).exits(**end)
        after = await scene.flight(flight)
        assert (after.state, after.attempt) == ("queued", 2)


async def test_an_accident_that_is_not_named_counts_as_failed(scene: Scene) -> None:
    async with scene.tower(agent("coder", recover_on=frozenset())):
        flight = await scene.send("coder")
        await (await scene.keeper(flight)).exits(signal=9)
        run, after = await scene.run(flight), await scene.flight(flight)
        assert (after.state, after.outcome, run.outcome) == ("landed", "failed", "failed")
        assert run.interruption == Interruption.CRASH


@pytest.mark.parametrize(
    ("policy", "state", "held", "words"),
    [
        ({"recovery": RecoveryPolicy.MANUAL}, "held", HeldReason.RECOVERY, "`tower recover "),
        ({"recovery": RecoveryPolicy.NEVER}, "dead", None, "is never recovered"),
        ({"max_recovery_attempts": 0}, "dead", None, "recovery is turned off"),
    ],
)
async def test_the_policy_decides_what_follows_an_accident(
    scene: Scene, policy: dict[str, Any], state: str, held: HeldReason | None, words: str
) -> None:
    async with scene.tower(agent("coder", **policy)):
        flight = await scene.send("coder")
        await (await scene.keeper(flight)).exits(signal=9)
        after = await scene.flight(flight)
        assert (after.state, after.held_reason, after.attempt) == (state, held, 1)
        assert words in (after.reason or "")
        assert (await scene.story(flight))[-1] == f"flight.{state}"


async def test_a_keeper_that_vanishes_is_an_interruption_of_its_own(scene: Scene) -> None:
    async with scene.tower(agent("coder")):
        flight = await scene.send("coder")
        await (await scene.keeper(flight)).vanishes()
        await later(1)
        run, after = await scene.run(flight), await scene.flight(flight)
        assert (run.outcome, run.interruption, after.state) == ("interrupted", "lost", "queued")
        assert (run.exit_code, run.exit_signal, run.cpu_seconds) == (None, None, None)
        scene.assert_free()


@pytest.mark.parametrize(("chance", "factor"), [(b"\x00", 0.9), (b"\xff", 1.1)])
async def test_recoveries_come_after_growing_pauses_and_run_out(scene: Scene, chance: bytes, factor: float) -> None:
    async with scene.tower(agent("coder", max_recovery_attempts=4)) as tower:
        tower.chance = lambda size: chance if size == 1 else scene.chance(size)
        flight = await scene.send("coder")
        for pause in (5, 30, 120, 120):
            await (await scene.keeper(flight)).exits(signal=9)
            queued = await scene.flight(flight)
            assert (queued.not_before or 0) - tower.clock() == pytest.approx(pause * factor)
            await later(pause * factor)
            assert (await scene.flight(flight)).state == "running"
        await (await scene.keeper(flight)).exits(signal=9)
        dead = await scene.flight(flight)
        assert (dead.state, dead.attempt, dead.outcome) == ("dead", 5, Outcome.INTERRUPTED)
        assert "its 4 recoveries are used up; `tower recover run_" in (dead.reason or "")
        assert [run.attempt for run in await scene.runs(flight)] == [1, 2, 3, 4, 5]
        assert (await scene.itinerary(flight)).runs_started == 5


async def test_an_unavailable_program_is_tried_again_after_growing_pauses_and_uses_up_no_attempt(scene: Scene) -> None:
    async with scene.tower(agent("coder", runner=QUOTA.name), runners=[QUOTA], also=[holds.watch]) as tower:
        flight = await scene.send("coder")
        for pause in (60, 120, 240, 480, 960, 1800, 1800):
            await (await scene.keeper(flight)).exits(1)
            held = await scene.flight(flight)
            assert (held.state, held.held_reason, held.attempt) == ("held", HeldReason.QUOTA, 1)
            assert held.reason == f"{QUOTA.detail}; `tower runners reset {QUOTA.name}` tries it at once"
            wait = (held.release_at or 0) - tower.clock()
            assert pause * 0.9 <= wait <= pause * 1.1
            await later(wait + holds.LOOK_SEC)
            assert (await scene.flight(flight)).state == "running"
        # A wall of its provider does not use up the chain's runs either, and costs nothing.
        assert (await scene.itinerary(flight)).fuel_spent == 0
        assert (await scene.itinerary(flight)).runs_started == 1
        assert {run.outcome for run in await scene.runs(flight)} == {Outcome.UNAVAILABLE, None}
        assert {run.cause for run in await scene.runs(flight)} == {Cause.DISPATCH}


async def test_the_answer_is_kept_as_it_was_printed(scene: Scene) -> None:
    async with scene.tower(agent("coder")):
        flight = await scene.send("coder")
        keeper = await scene.keeper(flight)
        await keeper.prints("\n  it is done ✓\n\n")
        await keeper.exits(0)
        assert (keeper.folder / "answer.txt").read_text() == "  it is done ✓"
        assert (keeper.folder / "answer.txt").stat().st_mode & 0o777 == 0o600


async def test_silence_is_no_answer_and_the_last_line_of_a_failure_is_its_reason(scene: Scene) -> None:
    async with scene.tower(agent("coder")):
        flight = await scene.send("coder")
        keeper = await scene.keeper(flight)
        await keeper.prints("warming up\nerror: \x1b[31mno such branch\x1b[0m\nbye\n", "stderr")
        await keeper.exits(2)
        assert not (keeper.folder / "answer.txt").exists()
        assert (await scene.run(flight)).reason == "exit code 2; last words: error: no such branch"


async def test_what_a_run_reports_is_recorded_and_charged_to_its_chain(scene: Scene) -> None:
    async with scene.tower(agent("coder"), agent("tester"), routes=["coder -> tester"]):
        flight = await scene.send("coder")
        second = await scene.send("tester", run=await scene.run(flight))
        for one in (flight, second):
            keeper = await scene.keeper(one)
            await keeper.reports(model="m-1", tokens_in=10, tokens_cached=4, tokens_out=3, cost_usd=0.25)
            await keeper.exits(0)
        run = await scene.run(flight)
        assert (run.model, run.tokens_in, run.tokens_cached, run.tokens_out) == ("m-1", 10, 4, 3)
        assert (run.cost, run.cost_source) == (250_000, "reported")
        assert (await scene.itinerary(flight)).fuel_spent == 500_000


@pytest.mark.parametrize("report", [lambda _: None, lambda path: path.write_text("["), Path.mkdir, os.mkfifo])
async def test_what_is_not_reported_is_unknown_and_not_nought(scene: Scene, report: Callable[[Path], object]) -> None:
    async with scene.tower(agent("coder")):
        flight = await scene.send("coder")
        keeper = await scene.keeper(flight)
        report(keeper.folder / "out" / "report")
        await keeper.exits(0)
        run = await scene.run(flight)
        assert (run.model, run.tokens_in, run.cost, run.cost_source) == (None, None, None, "unreported")
        # What was set aside for it stands for what is not known.
        assert (await scene.itinerary(flight)).fuel_spent == run.charged == run.estimate == 250_000


async def test_an_interrupted_run_is_charged_before_it_is_repeated(scene: Scene) -> None:
    async with scene.tower(agent("coder")):
        flight = await scene.send("coder")
        keeper = await scene.keeper(flight)
        await keeper.reports(cost_usd=1)
        await keeper.vanishes()
        await later(1)
        assert (await scene.flight(flight)).state == "queued"
        assert (await scene.itinerary(flight)).fuel_spent == 1_000_000


@pytest.mark.parametrize(
    ("coder", "end"),
    [
        (agent("coder"), {"signal": 9}),
        (agent("coder", recovery=RecoveryPolicy.MANUAL), {"signal": 9}),
        (agent("coder", runner=QUOTA.name), {"code": 1}),
    ],
    ids=["automatic", "manual", "unavailable"],
)
async def test_nothing_is_repeated_while_a_process_of_it_will_not_go(
    scene: Scene, coder: Agent, end: dict[str, Any]
) -> None:
    async def in_vain(*_: object) -> tuple[int, ...]:
        await anyio.lowlevel.checkpoint()
        return (4242, 4243)

    scene.patch.setattr(evidence, "end_survivors", in_vain)
    async with scene.tower(coder, runners=[QUOTA]) as tower:
        flight = await scene.send("coder")
        await (await scene.keeper(flight)).exits(**end, swept=False, left=[4242])
        held, run = await scene.flight(flight), await scene.run(flight)
        assert (held.state, held.held_reason, held.release_at) == ("held", HeldReason.UNCONFIRMED, None)
        assert "(4242, 4243): end them, then `tower recover " in (held.reason or "")
        scene.assert_free()
        await again.by_a_person(tower, run, person="ann", note=None, force=False)
        assert (await scene.flight(flight)).state == "queued"


async def test_what_has_landed_is_not_held_back_by_a_process_of_it_that_will_not_go(scene: Scene) -> None:
    async def in_vain(*_: object) -> tuple[int, ...]:
        await anyio.lowlevel.checkpoint()
        return (4242,)

    scene.patch.setattr(evidence, "end_survivors", in_vain)
    async with scene.tower(agent("coder")):
        flight = await scene.send("coder")
        await (await scene.keeper(flight)).exits(0, swept=False, left=[4242])
        assert (await scene.flight(flight)).outcome == Outcome.SUCCEEDED
        assert "processes that could not be ended: 4242" in (await scene.run(flight)).notes


async def test_processes_that_were_left_behind_are_looked_for_unless_the_keeper_swept(scene: Scene) -> None:
    looked: list[str] = []

    async def look(run: str, *_: object) -> tuple[int, ...]:
        await anyio.lowlevel.checkpoint()
        looked.append(run)
        return ()

    scene.patch.setattr(evidence, "end_survivors", look)
    async with scene.tower(agent("coder")):
        swept, unswept = await scene.send("coder"), await scene.send("coder")
        await (await scene.keeper(swept)).exits(0, swept=True)
        await (await scene.keeper(unswept)).exits(0, swept=False)
        assert looked == [(await scene.run(unswept)).id]
        assert (await scene.flight(unswept)).outcome == Outcome.SUCCEEDED


async def test_a_full_disk_delays_what_is_written_and_changes_nothing_of_it(scene: Scene) -> None:
    async with scene.tower(agent("coder")) as tower:
        flight = await scene.send("coder")
        with scene.full_disk():
            await (await scene.keeper(flight)).exits(0)
            assert tower.ballast.is_thrown_off
            await later(100)
            assert (await scene.run(flight)).ended_at is None
            assert len(tower.live) == 1
        await later(RETRY_SEC)
        run = await scene.run(flight)
        assert (run.outcome, run.ended_at) == ("succeeded", EPOCH)
        scene.assert_free()


async def test_a_log_that_cannot_be_read_leaves_the_exit_in_force(scene: Scene) -> None:
    def broken(*_: object) -> None:
        raise OSError(5, "Input/output error")

    async with scene.tower(agent("coder")):
        flight = await scene.send("coder")
        scene.patch.setattr(evidence, "read_log", broken)
        await (await scene.keeper(flight)).exits(0)
        assert (await scene.flight(flight)).outcome == Outcome.SUCCEEDED


async def test_an_answer_that_cannot_be_kept_is_lost_and_the_run_is_not(scene: Scene) -> None:
    async with scene.tower(agent("coder")):
        flight = await scene.send("coder")
        keeper = await scene.keeper(flight)
        await keeper.prints("done\n")
        (keeper.folder / "answer.txt").mkdir()
        await keeper.exits(0)
        assert (await scene.flight(flight)).outcome == Outcome.SUCCEEDED


async def test_a_record_that_the_program_forged_into_nonsense_counts_as_none(scene: Scene) -> None:
    async with scene.tower(agent("coder")):
        flight = await scene.send("coder")
        keeper = await scene.keeper(flight)
        (keeper.folder / "exit.json").write_text(json.dumps({"code": "0"}))
        await keeper.vanishes()
        await later(1)
        assert (await scene.run(flight)).interruption == Interruption.LOST


async def test_a_token_opens_nothing_once_its_run_is_settled(scene: Scene) -> None:
    async with scene.tower(agent("coder")):
        flight = await scene.send("coder")
        run = await scene.run(flight)
        assert (await scene.read(runs.by_token, run.token_sha256)).id == run.id
        await (await scene.keeper(flight)).exits(0)
        assert await scene.read(runs.by_token, run.token_sha256) is None


async def test_a_report_that_cannot_be_opened_just_now_is_read_later(scene: Scene) -> None:
    short = [1]

    def read(*arguments: Any, **named: Any) -> bytes | None:
        if short and named.get("is_evidence"):
            short.clear()
            raise BusyError("shortage", "cannot read it: Too many open files")
        return read_regular(*arguments, **named)

    scene.patch.setattr("tower.engine.evidence.read_regular", read)
    async with scene.tower(agent("coder")):
        flight = await scene.send("coder")
        keeper = await scene.keeper(flight)
        await keeper.reports(cost_usd=0.5)
        await keeper.exits(0)
        await later(10)
        assert (await scene.run(flight)).cost == 500_000
        assert (await scene.itinerary(flight)).fuel_spent == 500_000
        scene.assert_free()
