"""The report that a command may write to `LAYOVER_REPORT`: what it used, as JSON or YAML.

Keys: model, tokens_in, tokens_cached, tokens_written, tokens_out, cost_usd, credits; unavailable with reset_at or
retry_after_sec. A report that cannot be read changes nothing, a number that cannot be true is left out, and both are
said. What the run cost is decided by `core.pricing`.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

from tower.core import costs
from tower.core.evidence import Reading
from tower.core.fences import inline

MAX_CHARS: Final = 16 << 10
"""A report is five lines; more is a mistake, and not worth a reader's time."""

MAX_TOKENS: Final = 10**12
"""More than any run can use: a larger figure is a mistake in units."""

MAX_CREDITS: Final = 10**9
"""More units than any run can use."""

TOKENS: Final = ("tokens_in", "tokens_cached", "tokens_written", "tokens_out")
_MODEL_CHARS: Final = 200
_REASON_CHARS: Final = 300
_YEAR: Final = 366 * 86400.0


def reading(answer: str | None, report: str | None, *, promised: bool) -> Reading:
    """What an answer and a report say together. `report` is None when none was written, which may be `promised`."""
    if report is None:
        return Reading(answer=answer, problems=("it wrote no report to LAYOVER_REPORT",) if promised else ())
    try:
        values = _parse(report)
    except ValueError as error:
        return Reading(answer=answer, problems=(f"its report cannot be read: {error}",))
    found = checked(answer, values)
    words = values.get("unavailable")
    if isinstance(words, str) and words.strip():
        return unavailable(found, words, values)
    return found


def _parse(text: str) -> dict[str, Any]:
    """The mapping in a report. Raises `ValueError` with a few words."""
    if len(text) > MAX_CHARS:
        raise ValueError(f"it is longer than {MAX_CHARS} characters")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = _parse_yaml(text)
    if not isinstance(value, dict):
        raise ValueError("it is no mapping of names to values")
    return value


def _parse_yaml(text: str) -> object:
    import yaml

    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise ValueError(f"it is neither JSON nor YAML ({inline(str(error), 100) or 'too deep'})") from error


def checked(answer: str | None, values: dict[str, Any], *, whose: str = "report") -> Reading:
    """A reading from the values of a report, or of what else `whose` names; what cannot be true is left out."""
    problems: list[str] = []
    tokens = {name: _tokens(name, values.get(name), problems) for name in TOKENS}
    return Reading(
        answer=answer,
        model=_model(values.get("model"), problems),
        tokens_in=tokens["tokens_in"],
        tokens_cached=tokens["tokens_cached"],
        tokens_written=tokens["tokens_written"],
        tokens_out=tokens["tokens_out"],
        cost=_cost(values.get("cost_usd"), problems),
        credits=_credits(values.get("credits"), problems),
        problems=tuple(f"its {whose}'s {problem}" for problem in problems),
    )


def unavailable(found: Reading, words: str, values: dict[str, Any]) -> Reading:
    """The reading of a program that says in `words` that it could not work; `values` may say until when."""
    return replace(
        found,
        unavailable=inline(words, _REASON_CHARS),
        reset_at=_moment(values.get("reset_at")),
        retry_after=_number(values.get("retry_after_sec"), _YEAR),
    )


def _moment(value: object) -> float | None:
    """Seconds since the epoch of a number, or of an ISO 8601 time (in UTC, where it names no zone)."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return None
    if isinstance(value, datetime):  # YAML knows times
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
    return _number(value, 1e11)


def _number(value: object, most: float) -> float | None:
    # The comparison is false for NaN and the infinities as well.
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= most
    return float(value) if is_number and isinstance(value, int | float) else None


def _tokens(name: str, value: Any, problems: list[str]) -> int | None:
    if value is None:
        return None
    number = isinstance(value, int | float) and not isinstance(value, bool)
    # The comparison is false for NaN and the infinities as well.
    if not number or not 0 <= value <= MAX_TOKENS or value != int(value):
        problems.append(f"{name} is no count between 0 and {MAX_TOKENS}")
        return None
    return int(value)


def _cost(value: object, problems: list[str]) -> int | None:
    if value is None:
        return None
    try:
        return costs.parse(value)
    except ValueError as error:
        problems.append(f"cost_usd {error}")
        return None


def _credits(value: object, problems: list[str]) -> Decimal | None:
    if value is None:
        return None
    number = _number(value, MAX_CREDITS)
    if number is None:
        problems.append(f"credits is no number between 0 and {MAX_CREDITS}")
        return None
    return Decimal(str(number))


def _model(value: object, problems: list[str]) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not value.strip():
        problems.append("model is no text")
        return None
    return inline(value, _MODEL_CHARS)
