"""The report that a command may write to `LAYOVER_REPORT`: what it used, as JSON or YAML.

Keys: model, tokens_in, tokens_cached, tokens_out, cost_usd. A report that cannot be read changes nothing, a number
that cannot be true is left out, and both are said. What to charge for a run that says nothing is the runner's
`assume_usd`.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Final

from tower.core import costs
from tower.core.costs import CostSource
from tower.core.factory import Runner
from tower.core.fences import inline
from tower.core.outcome import Reading

MAX_CHARS: Final = 16 << 10
"""A report is five lines; more is a mistake, and not worth a reader's time."""

MAX_TOKENS: Final = 10**12
"""More than any run can use: a larger figure is a mistake in units."""

TOKENS: Final = ("tokens_in", "tokens_cached", "tokens_out")
_MODEL_CHARS: Final = 200


def reading(runner: Runner, answer: str | None, report: str | None, *, promised: bool) -> Reading:
    """What an answer and a report say together. `report` is None when none was written, which may be `promised`."""
    if report is None:
        found = without(runner, answer)
        return replace(found, problems=("it wrote no report to LAYOVER_REPORT",)) if promised else found
    try:
        values = _parse(report)
    except ValueError as error:
        return replace(without(runner, answer), problems=(f"its report cannot be read: {error}",))
    return checked(runner, answer, values)


def without(runner: Runner, answer: str | None) -> Reading:
    """A reading of a run that reported nothing: the price that the runner assumes, or none."""
    if runner.assume is None:
        return Reading(answer=answer, cost_source=CostSource.UNREPORTED)
    return Reading(answer=answer, cost=runner.assume, cost_source=CostSource.ASSUMED)


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


def checked(runner: Runner, answer: str | None, values: dict[str, Any], *, whose: str = "report") -> Reading:
    """A reading from the values of a report, or of what else `whose` names; what cannot be true is left out."""
    problems: list[str] = []
    tokens = {name: _tokens(name, values.get(name), problems) for name in TOKENS}
    cost = _cost(values.get("cost_usd"), tokens, problems)
    priced = without(runner, answer) if cost is None else Reading(cost=cost, cost_source=CostSource.REPORTED)
    return replace(
        priced,
        answer=answer,
        model=_model(values.get("model"), problems),
        tokens_in=tokens["tokens_in"],
        tokens_cached=tokens["tokens_cached"],
        tokens_out=tokens["tokens_out"],
        problems=tuple(f"its {whose}'s {problem}" for problem in problems),
    )


def _tokens(name: str, value: Any, problems: list[str]) -> int | None:
    if value is None:
        return None
    number = isinstance(value, int | float) and not isinstance(value, bool)
    # The comparison is false for NaN and the infinities as well.
    if not number or not 0 <= value <= MAX_TOKENS or value != int(value):
        problems.append(f"{name} is no count between 0 and {MAX_TOKENS}")
        return None
    return int(value)


def _cost(value: object, tokens: dict[str, int | None], problems: list[str]) -> int | None:
    if value is None:
        return None
    try:
        cost = costs.parse(value)
    except ValueError as error:
        problems.append(f"cost_usd {error}")
        return None
    if cost == 0 and any(tokens.values()):
        # Programs without a price list say 0; believing it would make the work look free.
        problems.append("cost_usd is 0 beside real tokens, and is not believed")
        return None
    return cost


def _model(value: object, problems: list[str]) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not value.strip():
        problems.append("model is no text")
        return None
    return inline(value, _MODEL_CHARS)
