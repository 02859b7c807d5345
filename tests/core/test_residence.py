"""A resident's states: what leads where, how long is waited, and when it is given up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tower.core.factory import Access, Agent, Runner
from tower.core.prompts import Prompt
from tower.core.residence import (
    FIRST_PAUSE_SEC,
    LONGEST_PAUSE_SEC,
    MOST_EXITS,
    WINDOW_SEC,
    Residence,
    ResidentState,
    StartNow,
    WaitFor,
    fingerprint,
    pause,
    remembered,
)

S = ResidentState
AGENT = Agent(name="a", runner="mine", instructions=Prompt.of("Go."), work_dir="/w", resident=True)
RUNNER = Runner(name="mine", kind="command", command=("p",), protocol="jsonl")

EVENTS: dict[str, tuple[Callable[[Residence], Residence], dict[ResidentState, ResidentState]]] = {
    "starting": (Residence.starting, {S.STOPPED: S.STARTING, S.BACKOFF: S.STARTING}),
    "not started": (lambda it: it.not_started(0, "no room"), {S.STARTING: S.BACKOFF}),
    "started": (Residence.started, {S.STARTING: S.READY}),
    "turn began": (Residence.turn_began, {S.READY: S.BUSY}),
    "turn ended": (Residence.turn_ended, {state: S.READY if state is S.BUSY else state for state in S}),
    "ending": (lambda it: it.ending("why"), dict.fromkeys((S.STARTING, S.READY, S.BUSY, S.STOPPING), S.STOPPING)),
    "ended as asked": (
        lambda it: it.ended_as_asked("why"),
        dict.fromkeys((S.STARTING, S.READY, S.BUSY, S.STOPPING), S.STOPPED),
    ),
    "exited": (lambda it: it.exited(0, "why"), dict.fromkeys((S.STARTING, S.READY, S.BUSY, S.STOPPING), S.BACKOFF)),
    "cleared": (
        Residence.cleared,
        {state: S.STOPPED if state in (S.STOPPED, S.BACKOFF, S.QUARANTINED) else state for state in S},
    ),
    "found": (Residence.found, dict.fromkeys(S, S.STARTING)),
    "given up": (lambda it: it.given_up("why"), dict.fromkeys(S, S.QUARANTINED)),
}


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("state", list(S))
def test_every_event_in_every_state(event: str, state: ResidentState) -> None:
    act, leads = EVENTS[event]
    before = Residence(state=state)
    if state in leads:
        assert act(before).state is leads[state]
    else:
        with pytest.raises(ValueError, match=f"from {state} to"):
            act(before)


def test_only_ready_takes_a_turn() -> None:
    assert [state for state in S if Residence(state=state, why="why").waits(0) is None] == [S.READY]


@given(st.integers(1, 10_000))
def test_pauses_grow_from_the_first_to_the_longest(streak: int) -> None:
    assert FIRST_PAUSE_SEC <= pause(streak) <= pause(streak + 1) <= LONGEST_PAUSE_SEC
    assert (pause(1), pause(100)) == (FIRST_PAUSE_SEC, LONGEST_PAUSE_SEC)


def run_of(gaps: list[int]) -> tuple[Residence, list[float]]:
    """A resident whose process ends by itself after each of these times."""
    at, times, known = 0.0, [], Residence()
    for gap in gaps:
        at += gap
        known = replace(known, state=S.READY).exited(at, "it fell over")
        times.append(at)
        if known.state is S.QUARANTINED:
            break
    return known, times


@given(st.lists(st.integers(0, 2 * int(WINDOW_SEC)), max_size=30))
def test_given_up_exactly_when_too_many_ended_within_the_window(gaps: list[int]) -> None:
    known, times = run_of(gaps)
    recent = [at for at in times if times[-1] - at < WINDOW_SEC] if times else []
    assert (known.state is S.QUARANTINED) == (len(recent) >= MOST_EXITS)
    if times and known.state is not S.QUARANTINED:
        assert known.state is S.BACKOFF
        assert known.next(times[-1]) == WaitFor(pause(known.streak))
        assert known.next(times[-1] + LONGEST_PAUSE_SEC) == StartNow()


@given(st.lists(st.integers(0, 2 * int(WINDOW_SEC)), max_size=30), st.integers(0, int(WINDOW_SEC)))
def test_a_restart_of_the_tower_forgets_nothing(gaps: list[int], later: int) -> None:
    known, times = run_of(gaps)
    now = (times[-1] if times else 0.0) + later
    recent = [at for at in times if now - at < WINDOW_SEC]
    again = remembered(recent, now, quarantined=known.why if known.state is S.QUARANTINED else None)
    assert (again.state is S.QUARANTINED) == (known.state is S.QUARANTINED)
    assert len(again.exits) == len(recent)
    if known.state is S.QUARANTINED:
        assert isinstance(again.next(now), WaitFor)


def test_what_was_asked_for_counts_for_nothing() -> None:
    known = replace(Residence(), state=S.BUSY)
    for _ in range(2 * MOST_EXITS):
        known = known.ending("changed").ended_as_asked("the configuration changed")
        assert (known.state, known.exits, known.next(0)) == (S.STOPPED, (), StartNow())
        known = known.starting().started()


def test_one_that_was_idle_waits_for_a_flight() -> None:
    idle = replace(Residence(), state=S.STOPPING).ended_as_asked("nothing came", idle=True)
    assert idle.next(1e9) == WaitFor(None)
    assert idle.wanted().next(0) == StartNow()
    assert idle.cleared().next(0) == StartNow()


def test_a_person_s_word_forgets_the_past() -> None:
    known, _ = run_of([1] * MOST_EXITS)
    assert known.state is S.QUARANTINED
    assert known.cleared().next(0) == StartNow()
    assert known.cleared().exits == ()


@pytest.mark.parametrize(
    ("changes", "is_other"),
    [
        ({"instructions": Prompt.of("Come.")}, True),
        ({"env": {"A": "1"}}, True),
        ({"args": ("-v",)}, True),
        ({"model": "large"}, True),
        ({"access": Access.READ_ONLY}, True),
        ({"work_dir": "/x"}, True),
        ({"timeout_sec": 1.0}, False),
        ({"description": "else"}, False),
        ({"max_turns": 3, "max_idle_sec": 3.0, "max_pending": 1, "recover_on": frozenset()}, False),
    ],
)
def test_what_makes_another_process_necessary(changes: dict[str, object], is_other: bool) -> None:
    assert (fingerprint(replace(AGENT, **changes), RUNNER) != fingerprint(AGENT, RUNNER)) is is_other  # type: ignore[arg-type]


def test_another_command_makes_another_process_necessary() -> None:
    assert fingerprint(AGENT, replace(RUNNER, command=("q",))) != fingerprint(AGENT, RUNNER)
    assert fingerprint(AGENT, replace(RUNNER, max_concurrent=3)) == fingerprint(AGENT, RUNNER)
