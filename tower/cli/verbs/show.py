"""`tower show`: all that is known of a flight, a run or an itinerary."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from typing import Any

import click

from tower.cli import named, options, screen, words
from tower.cli.verbs import help_requests

Pairs = Iterator[tuple[str, str]]


@click.command("show", short_help="All about a flight, a run or an itinerary (chain).")
@options.socket
@options.as_json
@click.argument("id")
@click.option("--payload", "text", flag_value="payload", help="What the run was told, and nothing else.")
@click.option("--answer", "text", flag_value="answer", help="What the run answered, and nothing else.")
def command(socket: str | None, as_json: bool, id: str, text: str | None) -> None:
    """Show what ID names: a flight (message), a run, or an itinerary (chain) as a story."""
    api = options.reach(socket)
    if text:
        screen.whole(api.read(f"/runs/{named.run(api, id)}/{text}").body)
        return
    if id.startswith("help_"):
        help_requests.show_one(api, id, as_json=as_json)
        return
    kind, known = named.find(api, id)
    document = api.get({"flight": "/flights/", "run": "/runs/", "itinerary": "/itineraries/"}[kind] + known)
    if as_json:
        screen.document(document)
    elif kind == "run":
        screen.fields(_run(document))
    elif kind == "flight":
        screen.fields(_flight(document))
        _runs(document["runs"])
        _body(document["body"])
    else:
        screen.fields(_itinerary(document))
        _story(document)


def _itinerary(itinerary: dict[str, Any]) -> Pairs:
    yield "itinerary", itinerary["id"]
    if itinerary["name"]:
        yield "name", itinerary["name"]
    if itinerary["pipeline"]:
        flags = (f"{name}={str(value).lower()}" for name, value in itinerary["flags"].items())
        yield "pipeline", " ".join((itinerary["pipeline"], *flags))
    for agent, asked in itinerary["choices"].items():
        yield "chosen", f"{agent}: {_asked(asked)}"
    if itinerary["parent"]:
        yield "opened by", itinerary["parent"]
    yield "state", itinerary["state"]
    yield "since", screen.when(itinerary["created_at"])
    yield "runs", f"{itinerary['runs_started']} of at most {itinerary['max_runs']}"
    source = f" ({itinerary['cost_source']})" if itinerary["cost_source"] else ""
    yield "cost", (itinerary["cost"] or words.NOTHING) + source
    yield "fuel", _fuel(itinerary["fuel"])
    if itinerary["fuel"]["overshot_at"]:
        yield "past its fuel", f"since {screen.when(itinerary['fuel']['overshot_at'])}"
    for join in itinerary["joins"]:
        if join["words"]:
            yield "join", join["words"]


def _asked(choice: dict[str, Any]) -> str:
    """What the sender asked of an agent; a model that was taken away is said as well."""
    values = (f"{key} {choice[key] or 'none'}" for key in choice if key != "args")
    return ", ".join((*values, *(("args " + " ".join(map(shlex.quote, choice["args"])),) if choice["args"] else ())))


def _fuel(fuel: dict[str, Any]) -> str:
    aside = f", {words.usd(fuel['reserved_usd'])} set aside" if fuel["reserved_usd"] else ""
    return f"{words.usd(fuel['spent_usd'])} charged{aside}, of {words.usd(fuel['limit_usd'])}"


def _story(itinerary: dict[str, Any]) -> None:
    """Each flight in order, and under it the runs that it woke; of those that a join released together, the first."""
    rows: list[tuple[str, ...]] = []
    for flight in itinerary["flights"]:
        why = words.why(flight, screen.brief)
        follows = flight["joined"] not in (None, flight["id"])
        if follows and not why:
            why = f"together with {screen.shown(flight['joined'])}"
        what = f"{flight['sender']['name']} -> {flight['to']}"
        when = screen.brief(flight["created_at"])
        rows.append((screen.shown(flight["id"]), what, flight["outcome"] or flight["state"], when, "", "", why))
        rows += [
            (screen.shown(run["id"]), f"attempt {run['attempt']} of {run['agent']}", *_how(run))
            for run in itinerary["runs"]
            if flight["id"] in run["flights"] and not follows
        ]
    _gap()
    screen.table(("ID", "WHAT", "STATE", "WHEN", "TOOK", "COST", "REASON"), rows)


def _runs(runs: list[dict[str, Any]]) -> None:
    if runs:
        _gap()
        rows = [(screen.shown(run["id"]), *_how(run)) for run in runs]
        screen.table(("RUN", "STATE", "WHEN", "TOOK", "COST", "REASON"), rows)


def _how(run: dict[str, Any]) -> tuple[str, ...]:
    return (
        run["outcome"] or run["state"],
        screen.brief(run["started_at"] or run["claimed_at"]),
        words.duration(run["seconds"]),
        words.money(run),
        run["reason"] or "",
    )


def _gap() -> None:
    if screen.on_terminal():
        screen.out("")


def _body(body: str) -> None:
    """A body is of many lines, so it comes last, behind an empty line."""
    screen.out("")
    screen.whole(body.encode(errors="replace"))


def _flight(flight: dict[str, Any]) -> Pairs:
    sender = flight["sender"]
    yield "flight", flight["id"]
    yield "itinerary", flight["itinerary"]
    yield "from", f"{sender['name']} ({sender['kind']}{', ' + sender['ref'] if sender['ref'] else ''})"
    yield "to", flight["to"]
    yield "state", flight["state"]
    if flight["outcome"]:
        yield "outcome", flight["outcome"]
    if why := words.why(flight, screen.when):
        yield "reason", why
    yield "sent", screen.when(flight["created_at"])
    if flight["ended_at"]:
        yield "ended", screen.when(flight["ended_at"])
    yield "hops left", str(flight["hops_remaining"])
    yield "attempt", str(flight["attempt"])
    if flight["approved_by"]:
        yield "approved by", flight["approved_by"]
    if flight["key"]:
        yield "key", flight["key"]


def _run(run: dict[str, Any]) -> Pairs:
    yield "run", run["id"]
    yield "agent", f"{run['agent']} (its run number {run['number']})"
    yield "runner", run["runner"]
    yield "itinerary", run["itinerary"]
    yield "flights", ", ".join(run["flights"])
    follows = f", follows {run['follows_run']}" if run["follows_run"] else ""
    yield "cause", f"{run['cause']}, attempt {run['attempt']}{follows}"
    yield "state", run["state"]
    yield from _ending(run)
    if run["headline"]:
        yield "report", run["headline"]
    yield from _usage(run)
    yield "workspace", f"{run['workspace']} ({_kind(run)})" if run["workspace"] else words.NOTHING
    if run["sandbox"]:
        yield "sandbox", run["sandbox"]
    if run["tree_after"]:
        changed = run["tree_after"] != run["tree_before"]
        yield "files", f"changed; `tower diff {run['id']}` shows how" if changed else "none changed"
    if run["turn"] is not None:
        yield "process", f"{run['process']} (its turn {run['turn']})"
    if run["started_at"]:
        yield "processes", "in a control group of their own" if run["cgroup"] else "held together by their keeper"
    yield "folder", run["folder"] or words.NOTHING
    for note in run["notes"]:
        yield "note", note


def _kind(run: dict[str, Any]) -> str:
    """A snapshot is removed when its run has ended; one that could not be is still there to be looked at."""
    kind = str(run["workspace_kind"])
    gone = kind == "snapshot" and run["state"] == "ended" and not os.path.isdir(run["workspace"])  # noqa: PTH112 - see `discover`
    return f"{kind}, removed" if gone else kind


def _ending(run: dict[str, Any]) -> Pairs:
    if run["outcome"]:
        yield "outcome", run["outcome"]
    if run["reason"]:
        yield "reason", run["reason"]
    if run["exit_signal"] is not None:
        yield "exit", f"signal {run['exit_signal']}"
    elif run["exit_code"] is not None:
        yield "exit", f"code {run['exit_code']}"
    yield "started", screen.when(run["started_at"])
    yield "ended", screen.when(run["ended_at"])
    yield "took", words.duration(run["seconds"])


def _usage(run: dict[str, Any]) -> Pairs:
    """Unknown is said as such: it is not zero."""
    yield "cpu", words.duration(run["cpu_seconds"])
    yield "peak memory", words.size(run["peak_memory"])
    if run["payload_bytes"] is not None:
        estimate = f"some {run['estimate_tokens']} tokens with what the program adds"
        yield "payload", f"{words.size(run['payload_bytes'])}, {estimate}"
    if run["model"]:
        yield "model", run["model"]
    tokens = [run[key] for key in ("tokens_in", "tokens_cached", "tokens_out")]
    if any(number is not None for number in tokens):
        known = [words.NOTHING if number is None else str(number) for number in tokens]
        yield "tokens", f"{known[0]} in ({known[1]} cached), {known[2]} out"
    yield "cost", words.money(run) + (f" ({run['cost_source']})" if run["cost_source"] else "")
    if run["charged_usd"] is not None and run["charged_usd"] != run["cost_usd"]:
        yield "charged", f"{words.usd(run['charged_usd'])}, since its cost is not known"
