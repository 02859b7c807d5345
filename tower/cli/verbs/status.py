"""`tower status`: one screen of truth."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from tower.cli import exits, findings, options, screen, words

Row = tuple[str, ...]


@click.command("status", short_help="How the tower is, in one screen.")
@options.socket
@options.as_json
@click.option("--health", is_flag=True, help="Only whether it answers; a flight that waits for a person is not ill.")
def command(socket: str | None, as_json: bool, health: bool) -> int:
    """Show how the tower is: what runs, what waits and why, and what is wrong.

    Exit code 0 when all is well, 3 when something wants a person: a ground stop (the kill switch), a flight (message)
    that is held for one, a request for help, or a configuration file that was not taken over.
    """
    api = options.reach(socket)
    if health:
        answer = api.get("/health")
        screen.document(answer) if as_json else screen.out("ok")
        return exits.DONE
    status = api.get("/status")
    if as_json:
        screen.document(status)
    else:
        _print(status)
    return exits.DONE if status["well"] else exits.NOT_WELL


def _print(status: dict[str, Any]) -> None:
    screen.fields(_facts(status))
    for title, columns, rows in _tables(status):
        if not rows:
            continue
        if screen.on_terminal():
            screen.out("")
            screen.out(title)
            screen.table(columns, rows)
        else:
            # Each line says what it is, so that one pattern finds all of a kind.
            screen.table(columns, [(title, *row) for row in rows])


def _facts(status: dict[str, Any]) -> Iterator[tuple[str, str]]:
    generation, slots, queue, stop = (status[key] for key in ("generation", "slots", "queue", "ground_stop"))
    yield "state", status["state"] if status["well"] else f"{status['state']}, not well"
    yield "version", status["version"]
    yield "pid", str(status["pid"])
    yield "since", screen.when(status["started_at"])
    yield "configuration", f"{generation['path']} (generation {generation['number']})"
    if stop:
        yield "ground stop", f"since {screen.when(stop['since'])} by {stop['by']}: {stop['why'] or 'no reason given'}"
    yield "slots", f"{slots['used']} of {slots['of']} in use"
    yield "queue", ", ".join(f"{queue[state]} {state}" for state in ("queued", "held", "parked", "halted"))
    yield "reserve", words.reserved(status["reserve"])
    if status["help"]:
        wanted = words.count(status["help"], "request")
        yield "help", f"{wanted} for help open; `tower help-requests` lists them"
    for key in status["needs_restart"]:
        yield "needs restart", key
    for text in status["warnings"]:
        yield "warning", text


def _tables(status: dict[str, Any]) -> Iterator[tuple[str, Row, list[Row]]]:
    yield "run", ("RUN", "AGENT", "STATE", "STARTED"), [_run(run) for run in status["runs"]]
    yield "resident", ("AGENT", "STATE", "TURNS", "SINCE", "WHY"), [_resident(one) for one in status["residents"]]
    yield "paused", ("AGENT", "BY"), [(one["name"], one["paused_by"]) for one in status["agents"] if one["paused_by"]]
    yield "hold", ("FLIGHT", "TO", "HELD", "WHY"), [_hold(flight) for flight in status["holds"]]
    yield "runner", ("RUNNER", "STATE", "UNTIL", "REASON"), [screen.wall(one) for one in status["circuits"]]
    yield "problem", ("WHERE", "SEVERITY", "WHAT"), [_problem(finding) for finding in status["problems"]]


def _run(run: dict[str, Any]) -> Row:
    return screen.shown(run["id"]), run["agent"], run["state"], screen.brief(run["started_at"])


def _resident(one: dict[str, Any]) -> Row:
    turns = words.NOTHING if one["turns"] is None else str(one["turns"])
    return one["agent"], one["state"], turns, screen.brief(one["since"]), one["why"] or ""


def _hold(flight: dict[str, Any]) -> Row:
    return screen.shown(flight["id"]), flight["to"], flight["held_reason"] or "", words.why(flight, screen.brief)


def _problem(finding: findings.Finding) -> Row:
    return findings.place(finding), finding["severity"], findings.sentence(finding)
