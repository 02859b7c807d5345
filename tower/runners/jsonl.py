"""The protocol `jsonl`, for programs of one's own that stay: one request line a turn, events, one result line.

    tower to program   {"turn": 3, "run": "run_...", "itinerary": "itn_...", "number": 7, "new": false, "payload": "."}
    program to tower   {"type": "result", "turn": 3, "answer": "...", "ok": true, "cost_usd": 0.01, "tokens_in": 900}
                       {"type": "session", "id": "..."}; lines of another type are progress, and only kept in the log

Pure: bytes in, events out. Lines are bounded, and nothing that a program prints raises anything here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tower.core.evidence import Reading
from tower.core.fences import inline
from tower.runners import report
from tower.runners.text import answer

NAME: Final = "jsonl"
PROTOCOLS: Final = (NAME,)
"""Every protocol by which a program can be a resident."""

LINE_BYTES: Final = 4 << 20
"""A longer line is passed over: an answer of the largest size fits four times."""

SESSION_CHARS: Final = 200
REASON_CHARS: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The end of a turn, as the program says it."""

    turn: int
    ok: bool
    fields: Mapping[str, Any] = field(default_factory=dict)
    end: int = 0
    """The offset in the output behind its line."""

    @property
    def session(self) -> str | None:
        return _session(self.fields.get("session"))


@dataclass(frozen=True, slots=True)
class Session:
    """What the program calls its conversation; a later process is offered it."""

    id: str


@dataclass(frozen=True, slots=True)
class Noise:
    """A line that is none of the protocol, in words."""

    words: str


Event = Result | Session | Noise


def request(
    *,
    turn: int,
    run: str,
    itinerary: str,
    number: int,
    payload: str,
    new: bool,
    session: str | None,
) -> bytes:
    """The line that begins a turn. `new` says that the process has had no turn before; then `session` is offered."""
    told: dict[str, Any] = {"turn": turn, "run": run, "itinerary": itinerary, "number": number, "new": new}
    if new and session is not None:
        told["session"] = session
    return json.dumps(told | {"payload": payload}).encode() + b"\n"


class Lines:
    """Cuts output into lines wherever its pages end; passes over what a dropped segment or an endless line leaves."""

    def __init__(self, offset: int) -> None:
        self._at = offset
        self._held = b""
        self._skipping = False

    @property
    def at(self) -> int:
        """The offset to go on reading at."""
        return self._at

    def feed(self, data: bytes, offset: int) -> Iterator[tuple[bytes | None, int]]:
        """Lines without their ends, each with the offset behind it; None for one that was too long or has a gap."""
        if offset != self._at:
            self._skipping = self._skipping or bool(self._held) or offset > self._at
            self._held = b""
        self._at = offset + len(data)
        begin = 0
        while (end := data.find(b"\n", begin)) >= 0:
            whole = not self._skipping and end - begin + len(self._held) <= LINE_BYTES
            yield (self._held + data[begin:end] if whole else None), offset + end + 1
            self._held, self._skipping = b"", False
            begin = end + 1
        if self._skipping or len(data) - begin + len(self._held) > LINE_BYTES:
            self._held, self._skipping = b"", True
        else:
            self._held += data[begin:]


def read(line: bytes | None, end: int) -> Event | None:
    """What a line says; None for progress, which is only kept."""
    if line is None:
        return Noise(f"a line was longer than {LINE_BYTES} bytes, or part of it is lost")
    if not line.strip():
        return None
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return Noise("a line was no JSON")
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        return Noise("a line was no object with a type")
    # JSON can write half characters, which no file and no database holds.
    value = {name: _whole(known) if isinstance(known, str) else known for name, known in value.items()}
    match value["type"]:
        case "result":
            return _result(value, end)
        case "session":
            session = _session(value.get("id"))
            return Noise("a session had no id") if session is None else Session(session)
    return None


def reading(result: Result) -> Reading:
    """What a result says of the turn: answer, use and cost, checked as a report is."""
    said = result.fields.get("answer")
    told = answer(said.encode()) if isinstance(said, str) else None
    found = report.checked(told, dict(result.fields), whose="result")
    unavailable = result.fields.get("unavailable")
    if isinstance(unavailable, str) and unavailable.strip() and not result.ok:
        return report.unavailable(found, unavailable, dict(result.fields))
    return found


def failure(result: Result) -> str:
    """Why a turn failed, in the program's words."""
    for name in ("error", "answer"):
        words = result.fields.get(name)
        if isinstance(words, str) and words.strip():
            return inline(words, REASON_CHARS)
    return "the program says that it failed, and not why"


def _result(value: Mapping[str, Any], end: int) -> Event:
    turn = value.get("turn")
    if isinstance(turn, bool) or not isinstance(turn, int):
        return Noise("a result named no turn")
    ok = value.get("ok", True)
    if not isinstance(ok, bool):
        return Noise("a result's ok was neither true nor false")
    return Result(turn=turn, ok=ok, fields=value, end=end)


def _whole(text: str) -> str:
    return text.encode(errors="replace").decode()


def _session(value: object) -> str | None:
    if not isinstance(value, str) or not value.isprintable() or not 0 < len(value) <= SESSION_CHARS:
        return None
    return None if value.startswith("-") else value
