"""The table of moves: no order of events leaves it, and every state is either waiting, alive or over."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tower.core.states import ALIVE, MOVES, OVER, WAITING, FlightState, check_move


def test_every_state_is_of_exactly_one_kind_and_stands_in_the_table() -> None:
    assert set(FlightState) == MOVES.keys()
    assert set(FlightState) == WAITING | ALIVE | OVER
    assert not WAITING & ALIVE
    assert not WAITING & OVER
    assert not ALIVE & OVER


@given(st.sampled_from(FlightState), st.lists(st.sampled_from(FlightState), max_size=20))
def test_walking_along_legal_moves_never_leaves_the_table(start: FlightState, wishes: list[FlightState]) -> None:
    state = start
    for wish in wishes:
        if wish in MOVES[state]:
            check_move(state, wish)
            state = wish
        else:
            with pytest.raises(ValueError, match=f"from {state} to {wish}"):
                check_move(state, wish)
    assert state in MOVES


def test_every_state_can_be_reached_from_a_new_flight() -> None:
    reached = {FlightState.QUEUED}
    while more := {after for state in reached for after in MOVES[state]} - reached:
        reached |= more
    assert reached == set(FlightState)


def test_nothing_runs_without_having_been_claimed() -> None:
    assert [state for state in FlightState if FlightState.RUNNING in MOVES[state]] == [FlightState.STARTING]
    assert [state for state in FlightState if FlightState.STARTING in MOVES[state]] == [FlightState.QUEUED]
