"""The recovery policy, and the table of what a crash leaves, over all combinations."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tower.core.factory import Agent, RecoveryPolicy
from tower.core.launch import ExitRecord, StartRecord
from tower.core.prompts import Prompt
from tower.core.recovery import End, Found, HoldForPerson, Next, Recover, Settlement, Sight, decide, settle
from tower.core.states import FlightState, Interruption, Outcome

I = Interruption  # noqa: E741
POLICIES = list(RecoveryPolicy)
NAMED = [I.TOWER_RESTART, I.CRASH, I.LOST, I.TIMEOUT, I.STALL, I.FIRST_OUTPUT, None]


def agent(**changes: Any) -> Agent:
    values: dict[str, Any] = {
        "name": "coder",
        "runner": "mine",
        "instructions": Prompt.of("x"),
        "work_dir": "/tree",
    }
    return Agent(**values | changes)


def after(cut: Interruption | None, attempt: int = 1, jitter: float = 1.0, **changes: Any) -> Next:
    return decide(run="run_1", cut=cut, agent=agent(**changes), attempt=attempt, jitter=jitter)


def name(cut: Interruption | None) -> str:
    return "failed" if cut is None else cut.value


@pytest.mark.parametrize("cut", NAMED)
def test_what_is_not_named_ends_as_failed(cut: Interruption | None) -> None:
    for policy in POLICIES:
        end = after(cut, recovery=policy, recover_on=frozenset())
        assert isinstance(end, End)
        assert end.state is FlightState.LANDED
        assert f"; {name(cut)} is not among what coder recovers on" in end.words
        assert end.outcome is (Outcome.FAILED if cut in {I.TOWER_RESTART, I.CRASH, I.LOST} else None)


@pytest.mark.parametrize("cut", NAMED)
def test_the_policy_decides_on_what_is_named(cut: Interruption | None) -> None:
    named = frozenset({name(cut)})
    assert after(cut, recover_on=named) == Recover(after_seconds=5.0)
    never = after(cut, recover_on=named, recovery=RecoveryPolicy.NEVER)
    assert isinstance(never, End)
    assert never.state is FlightState.DEAD
    assert "coder is never recovered (its policy)" in never.words
    assert "`tower recover run_1 --force`" in never.words
    manual = after(cut, recover_on=named, recovery=RecoveryPolicy.MANUAL)
    assert isinstance(manual, HoldForPerson)
    assert "`tower recover run_1`" in manual.words


@pytest.mark.parametrize(
    ("cut", "words"),
    [
        (I.TIMEOUT, "ran for longer than 3600 s (timeout_sec); timeout is not among"),
        (I.STALL, "printed nothing more for 9 s (stall_sec); stall is not among"),
        (I.FIRST_OUTPUT, "printed nothing for 1 s (first_output_sec); first_output is not among"),
        (I.CRASH, "it was cut off (crash); crash is not among"),
        (None, "it failed; failed is not among"),
    ],
)
def test_how_the_run_ended_leads(cut: Interruption | None, words: str) -> None:
    end = after(cut, recover_on=frozenset(), stall_sec=9.0, first_output_sec=1.0)
    assert isinstance(end, End)
    assert end.words.startswith(words)
    told = decide(run="run_1", cut=cut, agent=agent(recover_on=frozenset()), attempt=1, jitter=1.0, why="exit code 4")
    assert isinstance(told, End)
    assert told.words.startswith("exit code 4; ")


def test_by_default_limits_and_failures_are_not_repeated() -> None:
    repeated = {cut for cut in NAMED if isinstance(after(cut), Recover)}
    assert repeated == {I.TOWER_RESTART, I.CRASH, I.LOST}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("attempt", [1, 2, 9])
def test_what_a_person_did_is_not_up_to_the_policy(policy: RecoveryPolicy, attempt: int) -> None:
    everything = frozenset(I)
    cancelled = after(I.CANCELLED, attempt, recovery=policy, recover_on=everything)
    halted = after(I.GROUND_STOP, attempt, recovery=policy, recover_on=everything)
    assert isinstance(cancelled, End)
    assert cancelled.state is FlightState.CANCELLED
    assert isinstance(halted, End)
    assert halted.state is FlightState.HALTED
    assert "`tower recover --all-halted`" in halted.words
    assert after(I.STEERED, attempt, recovery=policy, recover_on=everything) == Recover(after_seconds=0.0)


@pytest.mark.parametrize(
    ("most", "attempt", "pause"),
    [
        (2, 1, 5.0),
        (2, 2, 30.0),
        (2, 3, None),
        (2, 4, None),
        (5, 3, 120.0),
        (5, 5, 120.0),
        (5, 6, None),
        (1, 1, 5.0),
        (1, 2, None),
        (0, 1, None),
    ],
)
def test_pauses_grow_until_attempts_are_used_up(most: int, attempt: int, pause: float | None) -> None:
    decided = after(I.CRASH, attempt, max_recovery_attempts=most)
    if pause is not None:
        assert decided == Recover(after_seconds=pause)
        return
    assert isinstance(decided, End)
    assert decided.state is FlightState.DEAD
    assert "`tower recover run_1 --force`" in decided.words


def test_the_words_of_an_end_count() -> None:
    def words(most: int) -> str:
        end = after(I.CRASH, most + 1, max_recovery_attempts=most)
        assert isinstance(end, End)
        return end.words

    assert "recovery is turned off (max_recovery_attempts = 0)" in words(0)
    assert "its one recovery is used up" in words(1)
    assert "its 3 recoveries are used up" in words(3)


@given(st.floats(0.5, 1.5), st.integers(1, 2))
def test_jitter_is_a_factor(jitter: float, attempt: int) -> None:
    assert after(I.LOST, attempt, jitter) == Recover(after_seconds=(5.0, 30.0)[attempt - 1] * jitter)


@given(st.sampled_from(NAMED), st.sampled_from(POLICIES), st.integers(0, 4), st.booleans())
def test_attempts_come_to_an_end(cut: Interruption | None, policy: RecoveryPolicy, most: int, named: bool) -> None:
    on = frozenset({name(cut)} if named else ())
    runs = 1
    while isinstance(after(cut, runs, recovery=policy, max_recovery_attempts=most, recover_on=on), Recover):
        runs += 1
        assert runs <= most + 1


def start(*, void: bool) -> StartRecord:
    return StartRecord(void=void, pid=1, ticks=2, boot_id="b", protocol=1)


def ended(*, swept: bool) -> ExitRecord:
    return ExitRecord(
        code=0, signal=None, ended_at=1.0, cpu_seconds=0.0, peak_memory=0, out_bytes=0, err_bytes=0, swept=swept
    )


STARTS = {"none": None, "void": start(void=True), "real": start(void=False)}
EXITS = {"none": None, "recorded": ended(swept=False), "swept": ended(swept=True)}
COMBINATIONS = list(product(STARTS, EXITS, Sight, Sight, (True, False)))

ALL = set(Sight)
ALIVE, GONE, UNKNOWN = {Sight.ALIVE}, {Sight.GONE}, {Sight.UNKNOWN}
TABLE: list[tuple[set[str], set[str], set[Sight], set[Sight], set[bool], Settlement]] = [
    # start, exit, keeper, survivors, same boot: the first row that fits
    ({"void"}, {"none", "recorded", "swept"}, ALL, ALL, {True, False}, Settlement.VOID_AND_REQUEUE),
    ({"none"}, {"none"}, ALL, ALL, {True, False}, Settlement.VOID_AND_REQUEUE),
    ({"real", "none"}, {"none", "recorded", "swept"}, ALIVE, ALL, {True}, Settlement.ADOPT),
    ({"real", "none"}, {"swept"}, ALL, ALL, {True, False}, Settlement.SETTLE_AS_ENDED),
    ({"real", "none"}, {"recorded"}, ALL, ALL, {False}, Settlement.SETTLE_AS_ENDED),
    ({"real"}, {"none"}, ALL, ALL, {False}, Settlement.INTERRUPTED),
    ({"real", "none"}, {"none", "recorded"}, UNKNOWN, ALL, {True}, Settlement.HOLD_UNCONFIRMED),
    ({"real", "none"}, {"none", "recorded"}, GONE, UNKNOWN, {True}, Settlement.HOLD_UNCONFIRMED),
    ({"real", "none"}, {"recorded"}, GONE, ALIVE, {True}, Settlement.END_SURVIVORS_THEN_SETTLE),
    ({"real", "none"}, {"recorded"}, GONE, GONE, {True}, Settlement.SETTLE_AS_ENDED),
    ({"real"}, {"none"}, GONE, ALIVE, {True}, Settlement.END_SURVIVORS_THEN_INTERRUPTED),
    ({"real"}, {"none"}, GONE, GONE, {True}, Settlement.INTERRUPTED),
]


@pytest.mark.parametrize(("began", "exited", "keeper", "survivors", "same_boot"), COMBINATIONS)
def test_settling(began: str, exited: str, keeper: Sight, survivors: Sight, same_boot: bool) -> None:
    found = Found(start=STARTS[began], exit=EXITS[exited], keeper=keeper, survivors=survivors, same_boot=same_boot)
    expected = next(
        row[-1]
        for row in TABLE
        if began in row[0] and exited in row[1] and keeper in row[2] and survivors in row[3] and same_boot in row[4]
    )
    assert settle(found) is expected


@pytest.mark.parametrize(("began", "exited", "keeper", "survivors", "same_boot"), COMBINATIONS)
def test_nothing_starts_again_beside_what_may_live(
    began: str, exited: str, keeper: Sight, survivors: Sight, same_boot: bool
) -> None:
    """A run that had started is settled on its own only when keeper and processes are known to be gone."""
    found = Found(start=STARTS[began], exit=EXITS[exited], keeper=keeper, survivors=survivors, same_boot=same_boot)
    if began != "real" or settle(found) not in {Settlement.INTERRUPTED, Settlement.SETTLE_AS_ENDED}:
        return
    assert not same_boot or exited == "swept" or (keeper, survivors) == (Sight.GONE, Sight.GONE)
