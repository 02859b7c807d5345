"""When waiting for a chain is over, how it is judged, and what is said meanwhile."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tower.cli import exits, story
from tower.core.chain import ChainState
from tower.core.states import HeldReason

from . import documents
from .documents import FLT, ITN, RUN, ended, flight, held, itinerary, landed, run

NOW = datetime(2031, 5, 6, 8, tzinfo=UTC)
OTHER = FLT[:-1] + "2"


def judged(state: str, *flights: documents.Document, runs: list[documents.Document] | None = None) -> story.Verdict:
    verdict = story.verdict(itinerary(state, list(flights), runs or []))
    assert verdict is not None
    return verdict


@pytest.mark.parametrize("state", ["working"])
def test_a_chain_that_works_is_waited_for(state: str) -> None:
    assert story.verdict(itinerary(state, [flight(), held("environment", "KEY is not set")], [run()])) is None


def test_every_flight_landed_well() -> None:
    verdict = judged("finished", landed(), landed(id=OTHER, to="reviewer"), runs=[ended(), ended()])
    assert verdict == story.Verdict(code=exits.DONE, sentence="landed: 2 flights, 2 runs, cost not reported")


def test_what_a_newer_delivery_replaced_is_no_failure() -> None:
    assert judged("finished", landed(), flight(id=OTHER, state="superseded")).code == exits.DONE


@pytest.mark.parametrize(
    ("changes", "how"),
    [
        ({"outcome": "failed"}, "failed"),
        ({"outcome": "suspect"}, "suspect"),
        ({"state": "dead", "outcome": "interrupted"}, "interrupted"),
        ({"state": "refused", "outcome": None}, "refused"),
        ({"state": "expired", "outcome": None}, "expired"),
        ({"state": "cancelled", "outcome": "cancelled"}, "cancelled"),
    ],
)
def test_one_flight_that_did_not_land_well_fails_the_chain(changes: documents.Document, how: str) -> None:
    verdict = judged("finished", landed(), landed(id=OTHER, to="tester", reason="because", **changes))
    assert verdict.code == exits.FAILED
    assert verdict.sentence == f"flight {OTHER[-6:]} to tester ended as {how}: because"
    assert f"tower show {ITN}" in verdict.advice


def test_without_a_reason_of_its_own_the_runs_is_told_and_others_are_counted() -> None:
    bad = landed(outcome="failed")
    verdict = judged(
        "finished",
        bad,
        landed(id=OTHER, outcome="failed"),
        landed(id=OTHER[:-1] + "3", outcome="failed"),
        runs=[ended(outcome="failed", reason="exit code 7")],
    )
    assert verdict.sentence == f"flight {FLT[-6:]} to writer ended as failed (and 2 others): exit code 7"


@pytest.mark.parametrize("state", ["cancelled", "halted", "interrupted", "stalled"])
def test_a_chain_that_came_to_a_bad_end_failed(state: str) -> None:
    assert judged(state, flight(state="cancelled")).code == exits.FAILED


@pytest.mark.parametrize(
    "reason", ["environment", "approval", "recovery", "agent", "over-budget", "unconfirmed", "fuel", "ground-stop"]
)
def test_what_only_a_person_can_release_is_3_with_why_and_what_to_do(reason: str) -> None:
    for state in ("held", "waiting"):
        verdict = judged(state, landed(), held(reason, "the why of it", id=OTHER))
        assert verdict.code == exits.NOT_WELL
        assert "waits for a person: the why of it" in verdict.sentence
        assert verdict.advice == f"`tower cancel {OTHER}` ends it"


def test_interrupted_work_is_offered_its_recovery() -> None:
    verdict = judged("waiting", held("recovery", "it was interrupted"), runs=[ended()])
    assert f"`tower recover {RUN}`" in verdict.advice


def test_an_advice_is_given_once() -> None:
    why = f"it was cut off (crash); `tower recover {RUN}` starts it again, `tower cancel {RUN}` ends it"
    verdict = judged("waiting", held("recovery", why), runs=[ended()])
    assert (verdict.sentence.count("`tower"), verdict.advice) == (2, "")


@pytest.mark.parametrize("reason", ["quota", "disk", "reserve"])
def test_what_time_releases_is_waited_for(reason: str) -> None:
    assert story.verdict(itinerary("held", [held(reason, "later")], [])) is None


def test_every_state_of_a_chain_and_every_hold_is_known_here() -> None:
    """A new one must be put where it belongs, or `wait` would hang on it."""
    waited_for = {"working", "held", "waiting"}
    judged_states = {"finished", "cancelled", "halted", "interrupted", "stalled"}
    assert waited_for | judged_states == set(ChainState)
    by_time = {"quota", "disk", "reserve"}
    assert by_time | story.FOR_A_PERSON == set(HeldReason)


def test_progress_names_who_runs_since_when_what_waits_and_the_cost() -> None:
    seen = itinerary(
        "working",
        [
            landed(),
            flight(id=OTHER, to="tester", waits_for="a slot"),
            flight(id=OTHER, to="tester", waits_for="a slot"),
        ],
        [ended(), run(agent="coder"), run(agent="reviewer", state="starting", started_at=None)],
        cost="$0.31+",
    )
    assert story.progress(seen, NOW) == (
        "coder running since 07:08:09; reviewer starting since 07:08:09; 2 x tester waits for a slot;"
        " cost so far $0.31+"
    )


@pytest.mark.parametrize("why", ["its 2 recoveries are used up", "writer is never recovered (its policy)"])
def test_an_interrupted_chain_says_which_rule_ended_it(why: str) -> None:
    verdict = judged("interrupted", landed(), flight(id=OTHER, state="dead", outcome="interrupted", reason=why))
    assert verdict.sentence == f"flight {OTHER[-6:]} to writer ended as interrupted: {why}"


def test_progress_says_when_a_hold_is_tried_again() -> None:
    seen = itinerary("held", [held("quota", "no quota", release_at="2031-05-06T09:08:00.000Z")], [])
    assert story.progress(seen, NOW) == "writer waits for no quota; next try 09:08:00"


def test_progress_between_two_runs_says_how_the_chain_stands() -> None:
    assert story.progress(itinerary("working", [landed()], []), NOW) == "working"


def test_a_cost_is_not_told_before_any_run_could_report_one() -> None:
    seen = itinerary("working", [flight(state="running")], [run()], cost="$0.00")
    assert story.progress(seen, NOW) == "writer running since 07:08:09"
