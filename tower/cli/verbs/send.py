"""`tower send`: one flight (message) to one agent, or into a pipeline."""

from __future__ import annotations

import os
from typing import Any, Final

import click

from tower.cli import agents, bodies, exits, options, screen, waiting, words
from tower.client import follow
from tower.client.api import Api
from tower.core.errors import NotFoundError, RefusedError

_IN_A_RUN: Final = "LAYOVER_RUN_TOKEN"


class Send(click.Command):
    """Says of a command line that cannot be read what is usually meant by it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = list(args)
        try:
            rest = super().parse_args(ctx, args)
            _place_body(ctx.params)
            return rest
        except click.NoSuchOption as error:
            raise click.UsageError(f"{error.message} {_DASHES}", ctx) from None
        except click.MissingParameter as error:
            if not any(word.startswith("-") for word in given):
                raise
            raise click.UsageError(f"{error.format_message()} {_DASHES}", ctx) from None
        except click.UsageError as error:
            if not error.message.startswith("Got unexpected extra argument"):
                raise
            raise click.UsageError(
                f'{error.message} A text of several words is one BODY in quotes: tower send AGENT "..."', ctx
            ) from None


def _place_body(params: dict[str, Any]) -> None:
    """Behind --pipeline the only argument is the body."""
    if params["pipeline"] is None:
        for name in ("agent", "body"):
            if params[name] is None:
                raise click.MissingParameter(param_hint=f"'{name.upper()}'", param_type="argument")
    elif params["body"] is not None:
        raise click.UsageError("Got unexpected extra argument: with --pipeline, BODY is the only one.")
    else:
        params["agent"], params["body"] = None, params["agent"]


_DASHES = 'A BODY that begins with a dash comes after --: tower send AGENT -- "-..."'


@click.command("send", cls=Send, short_help="Send a flight (message) to an agent.")
@options.socket
@options.as_json
@click.option(
    "-q", "--quiet", is_flag=True, help="Print the id, or with --wait the answer, and no words if all is well."
)
@click.argument("agent", required=False)
@click.argument("body", required=False)
@click.option("-p", "--pipeline", metavar="NAME", help="Send into this pipeline, in place of AGENT.")
@options.flags
@options.choose
@click.option("--key", metavar="KEY", help="Send once: the same key with the same body names the same flight.")
@click.option("--name", metavar="NAME", help="Name of the itinerary (chain), for people.")
@click.option("--priority", type=int, metavar="N", help="Higher goes first; the pipeline's or 0 if not given.")
@click.option("--at", "at", metavar="WHEN", help="Start nothing before: 22:00, 2031-05-06T07:00.")
@click.option("--in", "after", metavar="TIME", help="Start nothing for so long: 90m, 8h.")
@click.option("--wait", is_flag=True, help="Wait until the itinerary (chain) has ended, then print the answer.")
def command(
    socket: str | None,
    as_json: bool,
    quiet: bool,
    agent: str | None,
    body: str | None,
    flags: tuple[str, ...],
    chosen: tuple[str, ...],
    at: str | None,
    after: str | None,
    wait: bool,
    **others: str | int | None,
) -> int:
    """Send a flight (message) to AGENT, or into a pipeline; BODY is the text, - for standard input, or @FILE.

    It is on disk when this returns. Standard output has the flight's id; with --wait, the answer of its run, and the
    exit code tells how the whole itinerary (chain) ended: 0 all well, 1 not, 3 when it waits for a person. Inside an
    agent's run it is sent by that agent, along its routes, and nobody waits.
    """
    if wait:
        _check_may_wait()
    api = options.reach(socket)
    said = None if body is None else bodies.text(body)
    request: dict[str, Any] = {"to": agent, "body": said, "flags": options.flag_values(flags) or None, **others}
    request["choices"] = options.choices(chosen) or None
    request["not_before"] = _not_before(at, after)
    accepted = _accepted(api, {key: value for key, value in request.items() if value is not None})
    if not quiet:
        _say_accepted(accepted)
    if not wait:
        screen.document(accepted) if as_json else screen.out(accepted["flight"]["id"])
        return exits.DONE
    verdict, story = waiting.until_over(api, accepted["itinerary"], quiet=quiet)
    runs = [run["id"] for run in story["runs"] if accepted["flight"]["id"] in run["flights"]]
    answer = waiting.answer(api, runs[-1]) if verdict.code == exits.DONE and runs else None
    if as_json:
        told = None if answer is None else answer.decode(errors="replace")
        screen.document({"itinerary": story, "flight": accepted["flight"]["id"], "answer": told})
    elif answer is not None:
        screen.raw(answer if answer.endswith(b"\n") else answer + b"\n")
    if verdict.code != exits.DONE or not quiet:
        waiting.say(verdict)
    return verdict.code


def _check_may_wait() -> None:
    """A run that waited would keep the slot that its receiver may need, and is not told of answers; said before it
    sends, so that it does not take what it sent for refused."""
    if _IN_A_RUN in os.environ:
        raise RefusedError(
            "no-waiting",
            "cannot wait within a run, and so has sent nothing",
            "send without --wait and end: what comes of it wakes your agent anew, if a route leads back to it",
        )


def _not_before(at: str | None, after: str | None) -> str | None:
    if at and after:
        raise click.UsageError("--at and --in say the same thing: give one of them.")
    if not (at or after):
        return None
    from tower.cli import times

    return times.ahead(at or after or "", screen.now())


def _accepted(api: Api, request: dict[str, Any]) -> dict[str, Any]:
    if _IN_A_RUN in os.environ:
        # It outlives its tower, and waits until that is back. Asked again, the flight is the same by its key.
        return follow.send(api, {"key": os.urandom(16).hex(), **request}, screen.say)
    try:
        return api.post("/flights", request)
    except NotFoundError as error:
        if error.code == "unknown-agent":
            agents.require(api, request["to"])
        raise


def _say_accepted(accepted: dict[str, Any]) -> None:
    flight = accepted["flight"]
    again = " already" if accepted["duplicate"] else ""
    reason = words.why(flight, screen.when)
    waits = f", waits for {reason}" if reason else ""
    screen.say(f"flight to {flight['to']} is{again} {flight['state']}{waits}; itinerary {accepted['itinerary']}")
