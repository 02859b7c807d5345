"""The limits that a keeper carries out, and the time it counts them in."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stage import Stage, until

from tower.system.keeper.clock import GAP, NEVER, TICK, Clock, LimitWatch
from tower.system.keeper.ending import GIVE_UP_AFTER, GROUP_AFTER, Ending
from tower.system.keeperlink import KeeperLink
from tower.system.keeping import connect_keeper

if TYPE_CHECKING:
    from tower.system.keeper.protocol import LimitSeconds

NONE: LimitSeconds = {
    "timeout": None,
    "stall": None,
    "first_output": None,
    "grace": 1.0,
    "linger": 1.0,
    "orphan": 0.0,
}


def watch(**seconds: float) -> LimitWatch:
    return LimitWatch({**NONE, **seconds})  # type: ignore[typeddict-item]


@given(st.lists(st.floats(0, 100_000), max_size=50))
def test_a_gap_counts_as_one_tick(steps: list[float]) -> None:
    clock = Clock(1000.0)
    at, counted = 1000.0, 0.0
    for step in steps:
        at += step
        clock.advance(at)
        counted += step if step <= GAP else TICK
    assert math.isclose(clock.now, counted, abs_tol=1e-3)


def test_without_limits_nothing_is_ever_due() -> None:
    limits = watch()
    limits.attended(0.0, towers=0)
    assert limits.passed(1e9) is None
    assert limits.next_due() == NEVER


def test_the_time_of_a_run() -> None:
    limits = watch(timeout=10)
    limits.heard(9.9)
    limits.poked(9.9)
    assert limits.passed(9.99) is None
    assert limits.passed(10) == "timeout"


def test_silence_from_the_start() -> None:
    limits = watch(first_output=5)
    limits.poked(4.0)
    assert limits.next_due() == 5
    assert limits.passed(5) == "first_output"
    limits.heard(4.9)
    assert limits.passed(100) is None


def test_a_stall_begins_anew_with_output_and_tool_calls() -> None:
    limits = watch(stall=5)
    assert limits.passed(5) == "stall"
    limits.heard(4)
    assert limits.passed(8.9) is None
    limits.poked(8)
    assert limits.passed(12.9) is None
    assert limits.passed(13) == "stall"


def test_without_a_tower() -> None:
    limits = watch(orphan=100)
    limits.attended(10, towers=1)
    assert limits.passed(1000) is None
    limits.attended(50, towers=0)
    limits.attended(60, towers=0)
    assert limits.passed(149) is None
    assert limits.passed(150) == "orphan"
    limits.attended(151, towers=1)
    assert limits.passed(1000) is None


def test_the_limit_that_was_due_first_is_named() -> None:
    assert watch(timeout=9, stall=7, first_output=8).passed(20) == "stall"


def test_the_steps_of_an_end() -> None:
    ending = Ending()
    assert (ending.why, ending.next_due()) == (None, NEVER)
    assert ending.ask(10, 20, word="cancelled") is True
    assert ending.ask(11, 30, word="stop") is False
    assert ending.why == "cancelled"
    assert ending.next_due() == 10 + GROUP_AFTER
    assert not ending.group_is_due(11.9)
    assert ending.group_is_due(12)
    assert not ending.group_is_due(13)
    assert not ending.kill_is_due(29.9)
    ending.has_exited(15, 2)
    assert ending.kill_is_due(17)
    assert not ending.is_hopeless(17 + GIVE_UP_AFTER - 0.1)
    assert ending.is_hopeless(17 + GIVE_UP_AFTER)


def test_a_limit_and_a_word_are_both_on_record() -> None:
    ending = Ending()
    ending.ask(1, 20, limit="timeout")
    assert ending.why == "timeout"
    ending.ask(2, 0, word="cancelled")
    assert (ending.limit, ending.word) == ("timeout", "cancelled")
    assert ending.kill_is_due(2)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("limit", "script"),
    [
        ("timeout", "while :; do echo busy; sleep 0.02; done"),
        ("stall", "echo once; sleep 60"),
        ("first_output", "sleep 60"),
    ],
)
async def test_a_limit_ends_the_run(stage: Stage, limit: str, script: str) -> None:
    record = await stage.run(stage.sh(script, **{limit: 0.3}))
    assert (record.limit, record.stopping, record.swept) == (limit, None, True)


@pytest.mark.anyio
async def test_a_limit_is_polite_first_and_then_forceful(stage: Stage) -> None:
    """B014: a limit that passed is the end of the program, not a word about it."""
    plan = stage.sh("trap 'echo heard' TERM; echo ready; while :; do sleep 0.02; done", timeout=0.3, grace=0.3)
    record = await stage.run(plan)
    assert (record.limit, record.signal) == ("timeout", 9)
    assert stage.log(plan.run) == b"ready\nheard\n"


@pytest.mark.anyio
async def test_tool_calls_are_a_sign_of_life(stage: Stage) -> None:
    link = await stage.start(stage.sh("sleep 1; exit 8", stall=0.5))
    async with anyio.create_task_group() as group:
        group.start_soon(_poke_often, link, group.cancel_scope)
        record = await stage.end(link)
        group.cancel_scope.cancel()
    assert (record.code, record.limit) == (8, None)


async def _poke_often(link: KeeperLink, scope: anyio.CancelScope) -> None:
    while not scope.cancel_called:
        await link.poke()
        await anyio.sleep(0.1)


@pytest.mark.anyio
async def test_a_run_without_a_tower_is_ended_in_time(stage: Stage) -> None:
    plan = stage.plan("sleep", "60", orphan=0.4)
    link = await stage.start(plan)
    await anyio.sleep(0.6)
    assert link.is_alive
    await link.aclose()
    await anyio.sleep(0.2)
    again = await connect_keeper(plan.socket_dir, plan.socket_name, run=plan.run, pid=link.pid, ticks=link.ticks)
    assert again is not None
    await anyio.sleep(0.5)
    assert link.is_alive
    await again.aclose()
    await until(lambda: not link.is_alive)
    assert stage.exit(link).limit == "orphan"
