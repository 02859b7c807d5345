"""`/flights`: send a flight (message), list, show, cancel."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from tower.config.values import EffortLevel
from tower.control import sending
from tower.core.choices import KEYS, Choice
from tower.core.states import FlightState
from tower.web import shapes
from tower.web.door import Asking, Door, Identity, Json, Text, whole_characters

router = APIRouter(prefix="/flights", tags=["flights"])

SQLITE_INTEGER = 1 << 63


def _moment(text: Any) -> float:
    """Seconds since the epoch of an ISO 8601 time with a zone."""
    if not isinstance(text, str):
        raise ValueError("should be an ISO 8601 time, as text")
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("should name its time zone (a Z at the end for UTC)")
    return moment.timestamp()


Moment = Annotated[float, BeforeValidator(_moment), WithJsonSchema({"type": "string", "format": "date-time"})]


def _argument(text: str) -> str:
    if "\0" in text:
        raise ValueError("holds a zero byte, which no program can be told")
    return whole_characters(text)


Word = Annotated[str, Field(min_length=1, max_length=4096), AfterValidator(_argument)]


class Choose(BaseModel):
    """What to ask of an agent in the chain that a flight opens; a key that is absent is the agent's, null is none."""

    model_config = ConfigDict(extra="forbid", strict=True)

    model: Word | None = None
    effort: EffortLevel | None = None
    context: Word | None = None
    args: list[Word] = Field(default_factory=list, max_length=1000, description="added after the agent's")

    def choice(self) -> Choice:
        """As the verbs take it."""
        return Choice(values=self.model_dump(exclude_unset=True, include=set(KEYS)), args=tuple(self.args))


class Send(BaseModel):
    """A flight to send."""

    model_config = ConfigDict(extra="forbid", strict=True)

    to: Text | None = Field(default=None, max_length=200, description="the agent, or give a pipeline")
    pipeline: Text | None = Field(default=None, max_length=200, description="the named way in, in place of an agent")
    flags: dict[Text, bool] = Field(default_factory=dict, max_length=1000, description="of the pipeline")
    choices: dict[Text, Choose] = Field(
        default_factory=dict, max_length=1000, description="agent to what is asked of it in the chain that this opens"
    )
    body: Text | None = Field(
        default=None, description="UTF-8 text, at most `max_body_bytes`; by default what the pipeline says"
    )
    name: Text | None = Field(default=None, description="what to call the itinerary (chain) that this opens")
    key: Text | None = Field(default=None, description="the same key with the same body is sent once in 24 hours")
    priority: int | None = Field(
        default=None,
        ge=-SQLITE_INTEGER,
        lt=SQLITE_INTEGER,
        description="by default the pipeline's, or that of the flight which woke the run that sends",
    )
    not_before: Moment | None = Field(default=None, description="nothing starts before this time")


class Selection(BaseModel):
    """Which flights."""

    model_config = ConfigDict(extra="forbid")

    waiting: bool = Field(default=False, description="those that wait, first in line first, each with what for")
    state: FlightState | None = None
    agent: str | None = Field(default=None, max_length=200)
    limit: int = Field(default=100, ge=1, le=10_000)


@router.post("", status_code=202, response_model=shapes.Sent)
async def send(wanted: Send, door: Door, caller: Asking) -> Json:
    """Send a flight. Answered when it is on disk: from then on it is not lost."""
    request = sending.Request(
        to=wanted.to,
        pipeline=wanted.pipeline,
        flags=wanted.flags,
        choices={name: asked.choice() for name, asked in wanted.choices.items()},
        body=wanted.body,
        name=wanted.name,
        key=wanted.key,
        priority=wanted.priority,
        not_before=wanted.not_before,
    )
    return Json(await door.flights.send(caller, request), status_code=202)


@router.get("", response_model=shapes.Flights)
async def listing(selection: Annotated[Selection, Query()], door: Door, caller: Asking) -> Json:
    """List flights: those that wait with the reason, or by state and receiver, newest first."""
    return Json(
        await door.flights.listing(
            caller,
            waiting=selection.waiting,
            state=selection.state,
            agent=selection.agent,
            limit=selection.limit,
        )
    )


@router.get("/{identity}", response_model=shapes.FlightWithRuns)
async def show(identity: Identity, door: Door, caller: Asking) -> Json:
    """One flight, and the runs that it caused."""
    return Json(await door.flights.show(caller, identity))


class Retry(BaseModel):
    """How to do it again."""

    model_config = ConfigDict(extra="forbid", strict=True)

    note: Text | None = Field(default=None, max_length=10_000, description="words for the next run")


@router.post("/{identity}/retry", response_model=shapes.Flight)
async def retry(identity: Identity, wanted: Retry, door: Door, caller: Asking) -> Json:
    """Do a flight again that is over and did not succeed, with a handover note."""
    return Json(await door.flights.retry(caller, identity, note=wanted.note))


@router.delete("/{identity}", response_model=shapes.Flight)
async def cancel(identity: Identity, door: Door, caller: Asking) -> Json:
    """Cancel what has not started; of what runs, the run is asked to end."""
    return Json(await door.flights.cancel(caller, identity))
