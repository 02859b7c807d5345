"""`tower send`: one flight (message) to one agent."""

from __future__ import annotations

import sys
from typing import Any, BinaryIO, Final

import click

from tower.cli import exits, options, screen, waiting
from tower.core.errors import InvalidError

READ_BYTES: Final = 64 << 20
"""Most that is read of a body before the tower is asked; its own limit (`max_body_bytes`) is far lower."""


@click.command("send", short_help="Send a flight (message) to an agent.")
@options.socket
@options.as_json
@click.option("-q", "--quiet", is_flag=True, help="Print the id only, and no words.")
@click.argument("agent")
@click.argument("body")
@click.option("--key", metavar="KEY", help="Send once: the same key with the same body names the same flight.")
@click.option("--name", metavar="NAME", help="Name of the itinerary (chain), for people.")
@click.option("--priority", type=int, metavar="N", help="Higher goes first; 0 if not given.")
@click.option("--wait", is_flag=True, help="Wait until the itinerary (chain) has ended, then print the answer.")
def command(
    socket: str | None, as_json: bool, quiet: bool, agent: str, body: str, wait: bool, **choices: str | int | None
) -> int:
    """Send a flight (message) to AGENT; BODY is the text, - for standard input, or @FILE.

    It is on disk when this returns. Standard output has the flight's id; with --wait, the answer of its run, and the
    exit code tells how the whole itinerary (chain) ended: 0 all well, 1 not, 3 when it waits for a person. Inside an
    agent's run it is sent by that agent, along its routes.
    """
    api = options.reach(socket)
    request = {"to": agent, "body": _text(body), **{key: value for key, value in choices.items() if value is not None}}
    accepted = api.post("/flights", request)
    if not quiet:
        _say_accepted(accepted)
    if not wait:
        screen.document(accepted) if as_json else screen.out(accepted["flight"]["id"])
        return exits.DONE
    verdict, story = waiting.until_over(api, accepted["itinerary"])
    runs = [run["id"] for run in story["runs"] if accepted["flight"]["id"] in run["flights"]]
    answer = waiting.answer(api, runs[-1]) if verdict.code == exits.DONE and runs else None
    if as_json:
        text = None if answer is None else answer.decode(errors="replace")
        screen.document({"itinerary": story, "flight": accepted["flight"]["id"], "answer": text})
    elif answer is not None:
        screen.raw(answer if answer.endswith(b"\n") else answer + b"\n")
    waiting.say(verdict)
    return verdict.code


def _say_accepted(accepted: dict[str, Any]) -> None:
    flight = accepted["flight"]
    again = " already" if accepted["duplicate"] else ""
    reason = flight.get("waits_for") or flight["reason"]
    waits = f", waits for {reason}" if reason else ""
    screen.say(f"flight to {flight['to']} is{again} {flight['state']}{waits}; itinerary {accepted['itinerary']}")


def _text(body: str) -> str:
    """The body that the argument stands for. Raises `InvalidError` for one that cannot be read or is no UTF-8."""
    if body == "-":
        return _decoded(sys.stdin.buffer, "standard input")
    if body.startswith("@"):
        from pathlib import Path

        try:
            with Path(body[1:]).open("rb") as file:
                return _decoded(file, body[1:])
        except OSError as error:
            raise InvalidError("body-unreadable", f"cannot read the body from {body[1:]}: {error.strerror}") from error
    return _checked(body.encode(errors="surrogateescape"), "the argument")


def _decoded(stream: BinaryIO, name: str) -> str:
    data = stream.read(READ_BYTES + 1)
    if len(data) > READ_BYTES:
        raise InvalidError("body-too-large", f"cannot send {name}: it is longer than {READ_BYTES} bytes")
    return _checked(data, name)


def _checked(data: bytes, name: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InvalidError(
            "body-not-utf8",
            f"cannot send {name}: byte {error.start} (0x{data[error.start]:02x}) is not UTF-8",
            "a body is text; put binary data into a file of the workspace and send its path",
        ) from None
