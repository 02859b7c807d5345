"""`output = "claude"`: the stream of JSON lines that Claude Code prints, and its result record, which ends a run.

The record is found wherever it stands among its lines, whatever the order of its keys, and every value in it is what
a program wrote: checked like a report, and left out with a note where it cannot be true. Its cost is the sum of the
conversation, which for a run that resumes none is the run's own.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from tower.core.evidence import Reading, ResultRecord
from tower.core.factory import Runner
from tower.core.fences import inline
from tower.runners import report
from tower.runners.text import answer

NAME: Final = "claude"

WALLS: Final = {
    401: "sign-in was refused",
    402: "its account has no credit",
    403: "access was refused",
    429: "a limit of its provider was reached",
    500: "its provider failed",
    502: "its provider could not be reached",
    503: "its provider is overloaded",
    504: "its provider did not answer in time",
    529: "its provider is overloaded",
}
"""By HTTP status of the model's API: the same request may well work later."""

KINDS: Final = {
    "error_max_turns": "it reached its limit of turns",
    "error_max_budget_usd": "it reached its limit of money",
    "error_during_execution": "it was broken off",
}
"""By `subtype`, where the record's own words say less."""

NO_API: Final = "api_error"
"""`terminal_reason` when the model's API gave an error, or, without a status, nobody answered."""

LONGEST_INTEGER: Final = 18
"""Digits; a longer number is no count of anything, and would cost time to read."""

WORDS_CHARS: Final = 250
_DENIALS_NAMED: Final = 5


def read(runner: Runner, stdout_tail: bytes, report_text: str | None) -> Reading:
    """What the last result record in the output says; a reading of an unfinished run when there is none."""
    record = _last_record(stdout_tail.splitlines())
    if record is None:
        return Reading(promises_record=True)
    said = record.get("result")
    told = answer(_whole(said).encode()) if isinstance(said, str) else None
    found = report.checked(told, _usage(record), whose="result record")
    is_error = record.get("is_error") is not False or record.get("subtype") != "success"
    return replace(
        found,
        promises_record=True,
        record=(
            ResultRecord(ok=False, failure=_failure(record, told))
            if is_error
            else ResultRecord(ok=True, doubts=tuple(_doubts(record, told)))
        ),
        unavailable=_wall(record, told) if is_error else None,
    )


def _last_record(lines: Iterable[bytes]) -> dict[str, Any] | None:
    """The last result among the lines. What is no record, or only the end of a line, is passed over."""
    for line in reversed(list(lines)):
        if b'"result"' not in line:
            continue
        try:
            value = json.loads(line, parse_int=_integer)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict) and value.get("type") == "result":
            return value
    return None


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) <= LONGEST_INTEGER else math.inf


def _usage(record: Mapping[str, Any]) -> dict[str, Any]:
    """Tokens, cost and model under the names of a report, with cached tokens counted among those that went in."""
    usage = record.get("usage")
    used = usage if isinstance(usage, dict) else {}
    parts = [used.get(name) for name in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")]
    return {
        "model": _model(record.get("modelUsage")),
        "tokens_in": _sum(parts),
        "tokens_cached": used.get("cache_read_input_tokens"),
        "tokens_written": used.get("cache_creation_input_tokens"),
        "tokens_out": used.get("output_tokens"),
        "cost_usd": record.get("total_cost_usd"),
    }


def _sum(parts: Iterable[object]) -> object:
    """The sum of what is known. What cannot be added stands for the sum, and is refused in its place."""
    total: int | float | None = None
    for part in parts:
        if part is None:
            continue
        if isinstance(part, bool) or not isinstance(part, int | float) or part < 0:
            return part
        total = part if total is None else total + part
    return total


def _model(used: object) -> str | None:
    """The model with the most output tokens; of several such, the smallest name."""
    if not isinstance(used, dict) or not used:
        return None

    def printed(name: str) -> float:
        entry = used[name]
        count = entry.get("outputTokens") if isinstance(entry, dict) else None
        known = isinstance(count, int | float) and not isinstance(count, bool) and count == count
        return float(count) if known and count is not None else 0.0

    return _whole(min(used, key=lambda name: (-printed(name), name)))


def _wall(record: Mapping[str, Any], told: str | None) -> str | None:
    """Why the program could not work at all, if that is what the record says."""
    status = record.get("api_error_status")
    if isinstance(status, int) and not isinstance(status, bool):
        why = WALLS.get(status)
        words = None if why is None else f"{why} (HTTP {status})"
    else:
        words = "its provider could not be reached" if record.get("terminal_reason") == NO_API else None
    return words and _with_its_words(words, told)


def _failure(record: Mapping[str, Any], told: str | None) -> str:
    """Why the run failed, when the record says that it did."""
    subtype = record.get("subtype")
    kind = KINDS.get(subtype) if isinstance(subtype, str) else None
    if told is None:
        errors = record.get("errors")
        told = next((one for one in errors if isinstance(one, str)), None) if isinstance(errors, list) else None
    return _with_its_words(kind or "its result record says error", told)


def _with_its_words(words: str, told: str | None) -> str:
    return f"{words}: {inline(_whole(told), WORDS_CHARS)}" if told else words


def _doubts(record: Mapping[str, Any], told: str | None) -> Iterable[str]:
    """What makes a success one to look at."""
    denials = record.get("permission_denials")
    if isinstance(denials, list) and denials:
        names = {str(one.get("tool_name")) for one in denials if isinstance(one, dict)}
        shown = ", ".join(inline(_whole(name), 40) for name in sorted(names)[:_DENIALS_NAMED])
        yield f"tools were denied to it ({shown})" if shown else "tools were denied to it"
    if told is None:
        yield "its answer is empty"


def _whole(text: str) -> str:
    """JSON can write half characters, which no file and no database holds."""
    return text.encode(errors="replace").decode()
