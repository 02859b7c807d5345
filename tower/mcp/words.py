"""What the tools answer, in words: short, and with what the agent can do next. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tower.core.fences import inline

View = Mapping[str, Any]

LINE_CHARS = 500
"""Longest description of a peer that is shown."""


def sent(view: View, after: View) -> str:
    """A flight that was accepted: its id, what is left, and what it waits for."""
    flight = view["flight"]
    waits = f"it waits: {after['waits_for']}" if after["waits_for"] else f"it is {after['state']}"
    first = f"flight {flight['id']} to {flight['to']} is accepted; {waits}"
    if view["duplicate"]:
        first = f"flight {flight['id']} to {flight['to']} had been sent before, and nothing new was made; {waits}"
    return f"{first}\nhops left for what you send: {after['hops']}; you get no answer back, so go on or end"


def peers(view: View) -> str:
    """Whom the run may send to, one a line; then, for an orchestrator, who else there is."""
    found = view["peers"]
    if found:
        lines = ["You may send to:", *(f"- {_peer(peer)}" for peer in found)]
    else:
        why = "this chain has no hops left" if view["hops"] < 1 else "no route leads from you to anybody"
        lines = [f"You may send to nobody now: {why}."]
    if view["roster"]:
        lines += ["There are also, and you may not send to them:", *(f"- {_peer(other)}" for other in view["roster"])]
    return "\n".join(lines)


def _peer(peer: View) -> str:
    facts = [peer["access"]]
    if peer.get("mode") == "spawn":
        facts.append("opens a chain of its own")
    if peer.get("join"):
        facts.append(peer["join"])
    text = f"{peer['name']} ({', '.join(facts)}): {inline(peer['description'] or 'no description', LINE_CHARS)}"
    return f"{text} When: {inline(peer['purpose'], LINE_CHARS)}" if peer["purpose"] else text


def standing(view: View) -> str:
    """What is left of every budget."""
    if view["run"] is None:
        return f"You are {view['agent']}. No turn of yours is under way; a flight will wake you."
    seconds = view["seconds"]
    lines = [
        f"You are {view['agent']}, run {view['run']}, itinerary {view['itinerary']}"
        + (f", pipeline {view['pipeline']}." if view["pipeline"] else "."),
        f"hops left: {view['hops']}",
        f"fuel left: ${view['fuel_usd']:.2f} of ${view['fuel_limit_usd']:.2f}"
        + (f" (spent so far: {view['spent']}, {view['fuel_source'] or 'unreported'})" if view["spent"] else ""),
        f"runs left in this chain: {view['runs']} of {view['max_runs']}",
        f"time left of this run: {'unknown' if seconds is None else f'{seconds:.0f} s'}",
    ]
    if view["cancelled"]:
        lines.append("This chain was cancelled by a person: end here.")
    return "\n".join(lines)


def reported(view: View) -> str:
    """That the report is kept."""
    return _with_cuts("report kept" + (", in the place of the earlier one" if view["again"] else ""), view["cuts"])


def asked(view: View) -> str:
    """That a person will see it."""
    words = f"request {view['id']} is open ({view['blocker']}); a person will see it"
    if view["duplicate"]:
        words = f"request {view['id']} says the same and is open already"
    next_ = "end your run now; the chain waits for a person" if view["fatal"] else "nobody answers here: go on or end"
    return _with_cuts(f"{words}\n{next_}", view["cuts"])


def memory(view: View) -> str:
    """The memory as it stands."""
    if not str(view["text"]).strip():
        return "(your memory is empty)"
    head = f"(cut: the end of {view['bytes']} bytes)\n" if view["cut"] else ""
    return head + str(view["text"])


def remembered(view: View) -> str:
    """That an entry is kept."""
    cuts = ["the entry was too long and was cut"] if view["cut"] else []
    if view["dropped"]:
        cuts.append(f"the memory is full: its oldest {view['dropped']} entries were dropped")
    return _with_cuts(f"remembered; your memory has {view['bytes']} bytes now", cuts)


def logged(view: View) -> str:
    """That a line of the logbook is kept."""
    return _with_cuts("written to the logbook", ["the entry was too long and was cut"] if view["cut"] else [])


def _with_cuts(words: str, cuts: Iterable[str]) -> str:
    return "\n".join([words, *cuts])
