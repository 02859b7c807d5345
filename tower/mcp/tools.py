"""The tools: what each takes, which verb it is, and its answer in words that an agent can act on.

No argument names the caller: the token does. Rights and limits are the verbs'.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Final

import mcp_types as types
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from tower.control import Control, sending
from tower.core import accounts, notebook
from tower.core.callers import Caller
from tower.core.errors import InvalidError
from tower.core.tools import FOR_ORCHESTRATORS
from tower.core.tools import TOOLS as LINES
from tower.mcp import words


def _whole_characters(text: str) -> str:
    if any("\ud800" <= sign <= "\udfff" for sign in text):
        raise ValueError("holds half a character (a lone surrogate), which is no text")
    return text


Text = Annotated[str, AfterValidator(_whole_characters)]


class Arguments(BaseModel):
    """What a tool takes; a key that it does not know is refused."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Nothing(Arguments):
    """No arguments."""


class Send(Arguments):
    to: Text = Field(description="the name of the agent, one of those that layover_peers lists")
    body: Text = Field(description="the whole message: it is all that the agent is told of your work")
    key: Text | None = Field(default=None, description="the same key with the same body is sent once in 24 hours")


class Report(Arguments):
    headline: Text = Field(description=f"one line, at most {accounts.HEADLINE_CHARS} characters")
    body: Text = Field(description=f"what was done and what is left, at most {accounts.BODY_CHARS} characters")
    artifacts: list[Text] = Field(
        default_factory=list, description="files that you made or changed, relative to the place that you work in"
    )


class Help(Arguments):
    summary: Text = Field(description=f"what you need, in one line of at most {accounts.SUMMARY_CHARS} characters")
    detail: Text = Field(description="what you tried, and what would help; no passwords or keys")
    blocker: Text | None = Field(default=None, description=f"one of {', '.join(accounts.BLOCKERS)}")
    fatal: bool = Field(default=False, description="true when you cannot go on; end your run then")


class Write(Arguments):
    text: Text = Field(description=f"Markdown, at most {notebook.ENTRY_BYTES} bytes")


class Cancel(Arguments):
    flight: Text = Field(description="the flight's id, as layover_send said it")


class Tail(Arguments):
    tail: int = Field(default=notebook.READ_LINES, ge=1, le=100_000, description="how many lines of the end")


Carry = Callable[[Control, Caller, Any], Awaitable[str]]


@dataclass(frozen=True)
class Tool:
    """One tool."""

    name: str
    takes: type[Arguments]
    carry: Carry
    is_reading: bool = False

    @cached_property
    def described(self) -> types.Tool:
        """As `tools/list` gives it."""
        schema = self.takes.model_json_schema()
        schema.pop("description", None)
        return types.Tool(
            name=self.name,
            description=LINES[self.name],
            input_schema=_plain(schema),
            annotations=types.ToolAnnotations(read_only_hint=self.is_reading, open_world_hint=False),
        )

    async def call(self, control: Control, caller: Caller, arguments: Mapping[str, Any]) -> str:
        """The answer in words. Raises `TowerError`."""
        try:
            given = self.takes.model_validate(arguments)
        except ValidationError as error:
            raise _refused(self, error) from None
        return await self.carry(control, caller, given)


def _refused(tool: Tool, error: ValidationError) -> InvalidError:
    """All that is wrong with the arguments; their values are left out, since they may be secret or long."""
    wrong = "; ".join(f"{'.'.join(map(str, one['loc'])) or 'arguments'}: {one['msg']}" for one in error.errors())
    takes = ", ".join(
        name if info.is_required() else f"{name} (may be left out)" for name, info in tool.takes.model_fields.items()
    )
    return InvalidError("arguments", f"cannot call {tool.name}: {wrong}", f"it takes {takes or 'no arguments'}")


def _plain(schema: Any) -> Any:
    """Without titles, which only repeat the names."""
    if isinstance(schema, dict):
        return {key: _plain(value) for key, value in schema.items() if not (key == "title" and isinstance(value, str))}
    return [_plain(one) for one in schema] if isinstance(schema, list) else schema


async def _send(control: Control, caller: Caller, given: Send) -> str:
    request = sending.Request(to=given.to, body=given.body, key=given.key)
    sent = await control.flights.send(caller, request)
    return words.sent(sent, await control.own.after_sending(caller, sent["flight"]["id"]))


async def _peers(control: Control, caller: Caller, _: Nothing) -> str:
    return words.peers(await control.own.peers(caller))


async def _status(control: Control, caller: Caller, _: Nothing) -> str:
    return words.standing(await control.own.standing(caller))


async def _report(control: Control, caller: Caller, given: Report) -> str:
    told = await control.own.report(caller, headline=given.headline, body=given.body, artifacts=given.artifacts)
    return words.reported(told)


async def _help(control: Control, caller: Caller, given: Help) -> str:
    asked = await control.help.ask(
        caller, summary=given.summary, detail=given.detail, blocker=given.blocker, fatal=given.fatal
    )
    return words.asked(asked)


async def _memory_read(control: Control, caller: Caller, _: Nothing) -> str:
    return words.memory(await control.notes.memory(caller))


async def _memory_write(control: Control, caller: Caller, given: Write) -> str:
    return words.remembered(await control.notes.remember(caller, given.text))


async def _logbook_read(control: Control, caller: Caller, given: Tail) -> str:
    read = await control.notes.logbook(caller, given.tail)
    return str(read["text"]) or "(the logbook is empty)"


async def _logbook_append(control: Control, caller: Caller, given: Write) -> str:
    return words.logged(await control.notes.log(caller, given.text))


async def _cancel(control: Control, caller: Caller, given: Cancel) -> str:
    cancelled = await control.own.cancel(caller, given.flight)
    return f"flight {cancelled['flight']} to {cancelled['to']} is cancelled"


TOOLS: Final[Mapping[str, Tool]] = {
    tool.name: tool
    for tool in (
        Tool("layover_send", Send, _send),
        Tool("layover_peers", Nothing, _peers, is_reading=True),
        Tool("layover_status", Nothing, _status, is_reading=True),
        Tool("layover_report", Report, _report),
        Tool("layover_help", Help, _help),
        Tool("layover_memory_read", Nothing, _memory_read, is_reading=True),
        Tool("layover_memory_write", Write, _memory_write),
        Tool("layover_logbook_read", Tail, _logbook_read, is_reading=True),
        Tool("layover_logbook_append", Write, _logbook_append),
        Tool("layover_cancel", Cancel, _cancel),
    )
}
"""By name, in the order in which they are listed."""


def offered(*, is_orchestrator: bool) -> list[Tool]:
    """The tools that a run is shown; a call of another one is refused by its verb."""
    return [tool for tool in TOOLS.values() if is_orchestrator or tool.name not in FOR_ORCHESTRATORS]
