"""The tables of the configuration file that say how work flows: `[[routes]]` and `[pipelines.NAME]`.

Shapes, types and bounds, as in `schema`; what the values mean together is left to `routes` and `reaching`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field

from tower.config.values import (
    TABLE,
    Effort,
    Ends,
    Names,
    OptionalLimit,
    Prose,
    RefusedValueError,
    Short,
    Words,
    between,
)
from tower.core.pipelines import MAX_PRIORITY


def _join(value: Any) -> Any:
    is_number = isinstance(value, int) and not isinstance(value, bool) and value >= 1
    if value in ("all", "any", "settled") or is_number:
        return value
    raise RefusedValueError(
        'must be "all", "any", "settled", or a number', "as a number, write how many of the senders must deliver"
    )


def _trigger(value: Any) -> Any:
    if isinstance(value, dict) and value.keys() & {"every", "cron", "watch"}:
        raise RefusedValueError(
            "starts by itself, which is not available yet", 'write "manual", and send with `tower send -p`'
        )
    return value


class RouteTable(BaseModel):
    """`[[routes]]`."""

    model_config = TABLE

    senders: Ends = Field(alias="from")
    receivers: Ends = Field(alias="to")
    mode: Literal["async", "spawn"] = "async"
    join: Annotated[str | int | None, BeforeValidator(_join)] = None
    timeout_sec: OptionalLimit = None
    accept_suspect: bool = False
    pipelines: Ends | None = None


class FlagTable(BaseModel):
    """One of the `flags` of `[pipelines.NAME]`."""

    model_config = TABLE

    default: bool = False
    description: Words = None


class ChoiceTable(BaseModel):
    """`[pipelines.NAME.agents.AGENT]`."""

    model_config = TABLE

    model: Words = None
    effort: Effort = None
    context: Words = None
    args: Names = ()


class PipelineTable(BaseModel):
    """`[pipelines.NAME]`."""

    model_config = TABLE

    entry: Short
    description: Words = None
    trigger: Annotated[Literal["manual"], BeforeValidator(_trigger)] = "manual"
    priority: Annotated[int, between(-MAX_PRIORITY, MAX_PRIORITY)] = 0
    body: Prose = None
    workspace: Literal["shared", "per-itinerary"] = "shared"
    flags: dict[str, FlagTable] = Field(default_factory=dict, max_length=1000)
    agents: dict[str, ChoiceTable] = Field(default_factory=dict, max_length=1000)
