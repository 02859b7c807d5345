"""How an itinerary (chain) stands, in one sentence, and whether waiting for it is over.

Pure: it reads the documents of the API. Watching is `tower.client.follow`'s, printing the verbs'.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from tower.cli import exits, words
from tower.core import ids

FOR_A_PERSON: Final = frozenset(
    {"environment", "approval", "recovery", "agent", "over-budget", "unconfirmed", "fuel", "ground-stop"}
)
"""Reasons of a hold that end by a person's hand alone; the others end with time."""

_RECOVERABLE: Final = frozenset({"recovery", "unconfirmed"})

_ENDED_BADLY: Final = {
    "cancelled": "it was cancelled",
    "halted": "a ground stop (the kill switch) ended it",
    "interrupted": "it was interrupted",
    "stalled": "it stalled: somebody it waits for can no longer send",
}

Story = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Waiting is over: the exit code, why in one sentence, and what a person can do ("" when nothing)."""

    code: int
    sentence: str
    advice: str = ""


def verdict(story: Story) -> Verdict | None:
    """How waiting for this itinerary ends; None while it goes on by itself."""
    state = story["state"]
    if state == "finished":
        return _finished(story)
    if state in _ENDED_BADLY:
        return _ended_badly(story)
    if state in ("held", "waiting"):
        for flight in story["flights"]:
            if flight["state"] == "held" and flight["held_reason"] in FOR_A_PERSON:
                return _held(story, flight)
    if state == "waiting":
        for request in story["help"]:
            if request["fatal"]:
                return _asks(request)
    return None


def _ended_badly(story: Story) -> Verdict:
    """Told by the first flight that came to this end and says why: its reason tells what can still be done."""
    state = story["state"]
    ended = (state, "stranded" if state == "stalled" else "dead")
    told = next((it for it in story["flights"] if it["state"] in ended and it["reason"]), None)
    sentence = _ENDED_BADLY[state] if told is None else _ended(told, told["reason"])
    return Verdict(code=exits.FAILED, sentence=sentence, advice=f"see `tower show {story['id']}`")


def _ended(flight: dict[str, Any], why: str, more: str = "") -> str:
    how = flight["outcome"] or flight["state"]
    return f"flight {ids.short(flight['id'])} to {flight['to']} ended as {how}{more}" + (f": {why}" if why else "")


def _held(story: Story, flight: dict[str, Any]) -> Verdict:
    reason = flight.get("waits_for") or flight["reason"] or flight["held_reason"]
    return Verdict(
        code=exits.NOT_WELL,
        sentence=f"flight {ids.short(flight['id'])} to {flight['to']} waits for a person: {reason}",
        advice=_advice(story, flight, reason),
    )


def _asks(request: dict[str, Any]) -> Verdict:
    return Verdict(
        code=exits.NOT_WELL,
        sentence=f"run {ids.short(request['run'])} of {request['agent']} waits for help: {request['summary']}",
        advice=f"`tower show {request['id']}` tells more, `tower help-requests resolve {request['id']}` closes it",
    )


def _advice(story: Story, flight: dict[str, Any], reason: str) -> str:
    """What to do, unless the reason says it: a command that is named twice, with two ids, helps nobody."""
    if "`tower cancel" in reason:
        return ""
    end = f"`tower cancel {flight['id']}` ends it"
    runs = [run["id"] for run in story["runs"] if flight["id"] in run["flights"]]
    if runs and flight["held_reason"] in _RECOVERABLE and "`tower recover" not in reason:
        return f"`tower recover {runs[-1]}` starts it again, {end}"
    return end


def _finished(story: Story) -> Verdict:
    bad = [flight for flight in story["flights"] if not _landed_well(flight)]
    if not bad:
        return Verdict(code=exits.DONE, sentence=_sum(story))
    first = bad[0]
    more = f" (and {words.count(len(bad) - 1, 'other')})" if len(bad) > 1 else ""
    sentence = _ended(first, first["reason"] or _run_reason(story, first["id"]), more)
    return Verdict(code=exits.FAILED, sentence=sentence, advice=f"see `tower show {story['id']}`")


def _landed_well(flight: dict[str, Any]) -> bool:
    """A flight that a later one of the same sender replaced has done nothing, and nothing wrong."""
    return (flight["state"], flight["outcome"]) == ("landed", "succeeded") or flight["state"] == "superseded"


def _run_reason(story: Story, flight: str) -> str:
    reasons = [run["reason"] for run in story["runs"] if flight in run["flights"] and run["reason"]]
    return reasons[-1] if reasons else ""


def _sum(story: Story) -> str:
    flights, runs = len(story["flights"]), len(story["runs"])
    return f"landed: {words.count(flights, 'flight')}, {words.count(runs, 'run')}, cost {story['cost']}"


def progress(story: Story, now: datetime) -> str:
    """One line: which agents run and since when, what waits and for what, what it cost so far."""
    parts = [
        f"{run['agent']} {run['state']} since {words.brief(run['started_at'] or run['claimed_at'], now)}"
        for run in story["runs"]
        if run["state"] != "ended"
    ]
    waiting = [flight for flight in story["flights"] if flight["state"] in ("queued", "held", "parked")]
    reasons = Counter((flight["to"], words.why(flight, lambda at: words.brief(at, now))) for flight in waiting)
    for (receiver, reason), number in reasons.items():
        times = f"{number} x " if number > 1 else ""
        parts.append(f"{times}{receiver} waits" + (f" for {reason}" if reason else ""))
    if any(run["state"] == "ended" for run in story["runs"]):  # before that nobody can know
        parts.append(f"cost so far {story['cost']}")
    return "; ".join(parts or [story["state"]])
