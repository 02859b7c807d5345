"""What a send asks for, against the configuration: which agent it reaches, by which way in, and what it says.

Pure but for the factory it is given. Who may send along which route, and what is written down, is left to `sending`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tower.core.callers import Caller
from tower.core.choices import Choice
from tower.core.errors import InvalidError, NotFoundError, RefusedError
from tower.core.factory import Agent, Factory
from tower.core.pipelines import MAX_PRIORITY, Pipeline, flags_of
from tower.core.placeholders import ARGS, IN_COMMANDS, unknown_names

MAX_KEY: Final = 200
MAX_NAME: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What somebody wants to send: to an agent, or into a pipeline. `not_before` is seconds since the epoch."""

    body: str | None = None
    """None: what the pipeline says."""
    to: str | None = None
    pipeline: str | None = None
    flags: Mapping[str, bool] = field(default_factory=dict)
    """Of the pipeline, those that are not to have their default."""
    choices: Mapping[str, Choice] = field(default_factory=dict)
    """Agent -> what is asked of it in the chain that this opens."""
    name: str | None = None
    key: str | None = None
    priority: int | None = None
    """None: the pipeline's, or that of the flight which woke the run that sends."""
    not_before: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A request of which all is known that the configuration says."""

    agent: Agent
    body: str
    name: str | None = None
    key: str | None = None
    priority: int | None = None
    not_before: float | None = None
    pipeline: str | None = None
    flags: Mapping[str, bool] = field(default_factory=dict)
    """The value of every flag that the pipeline declares."""
    choices: Mapping[str, Choice] = field(default_factory=dict)

    @property
    def to(self) -> str:
        """Whom it is for."""
        return self.agent.name


def address(factory: Factory, caller: Caller, request: Request) -> Message:
    """What a request comes to.

    Raises `InvalidError` (body, key, name, priority, flags, choices out of bounds), `NotFoundError` (no such agent or
    pipeline), `RefusedError` (no way in, or a run that chooses).
    """
    way_in = _way_in(factory, caller, request)
    flags = flags_of(way_in, request.flags)
    _check_choices(factory, caller, request.choices)
    body = request.body if request.body is not None or way_in is None else way_in.body
    _check(request, body or "", factory.settings.max_body_bytes)
    agent = _receiver(factory, way_in.entry if way_in else request.to or "")
    if way_in is None and caller.is_person:
        _check_entry(factory, agent)
    return Message(
        agent=agent,
        body=body or "",
        name=request.name,
        key=request.key,
        priority=way_in.priority if way_in and request.priority is None else request.priority,
        not_before=request.not_before,
        pipeline=way_in.name if way_in else None,
        flags=flags,
        choices=request.choices,
    )


def _way_in(factory: Factory, caller: Caller, request: Request) -> Pipeline | None:
    if (request.to is None) == (request.pipeline is None):
        raise InvalidError(
            "no-address", "cannot send without knowing where to", "name an agent, or a pipeline, and not both"
        )
    if request.pipeline is None:
        return None
    if not caller.is_person:
        raise RefusedError(
            "pipeline-by-run",
            f"cannot send into the pipeline {request.pipeline[:80]!r} from within a run: pipelines are for people",
            "send to an agent that a route leads to",
        )
    way_in = factory.pipelines.get(request.pipeline)
    if way_in is None:
        raise unknown_pipeline(factory, request.pipeline)
    return way_in


def _check_choices(factory: Factory, caller: Caller, choices: Mapping[str, Choice]) -> None:
    """Whoever starts a chain chooses for it; what is chosen must be able to have an effect."""
    if choices and not caller.is_person:
        raise RefusedError(
            "choice-by-run",
            "cannot choose how agents run from within a run: whoever started the chain chose for all of it",
            "send without `choices`; each agent runs as its operator has set it",
        )
    for name, choice in choices.items():
        sentence = f"cannot choose for {name[:80]!r}"
        agent = factory.agents.get(name)
        if agent is None:
            raise unknown_agent(factory, name)
        if agent.resident:
            raise InvalidError(
                "choice-for-resident",
                f"{sentence}: it is resident, and one process of it serves all chains",
                f"change [agents.{name}] in the configuration, or name an agent that is not resident",
            )
        not_filled = unknown_names(choice.args) or tuple(ARGS[1:-1] for word in choice.args if ARGS in word)
        if not_filled:
            raise InvalidError(
                "bad-placeholder",
                f"{sentence} an argument with {{{not_filled[0][:80]}}}, which nothing fills in",
                f"arguments may hold {', '.join(sorted(f'{{{it}}}' for it in IN_COMMANDS if it != ARGS[1:-1]))}",
            )


def unknown_agent(factory: Factory, name: str) -> NotFoundError:
    """The error for a name that no agent has."""
    known = ", ".join(sorted(factory.agents)) or "none"
    return NotFoundError("unknown-agent", f"cannot find an agent called {name[:80]!r}", f"there are: {known}")


def unknown_pipeline(factory: Factory, name: str) -> NotFoundError:
    """The error for a name that no pipeline has."""
    known = ", ".join(sorted(factory.pipelines)) or "none"
    return NotFoundError("unknown-pipeline", f"cannot find a pipeline called {name[:80]!r}", f"there are: {known}")


def _check(request: Request, body: str, max_body: int) -> None:
    """Raise `InvalidError` for a request that no rule could let pass."""
    size = len(body.encode("utf-8", errors="surrogatepass"))
    if not body.strip():
        raise InvalidError("empty-body", "cannot send an empty body", "say what the agent should do")
    if any("\ud800" <= character <= "\udfff" for character in body):
        raise InvalidError(
            "not-text", "cannot send a body that is not UTF-8 text", "send text; name files by their path"
        )
    if size > max_body:
        raise InvalidError(
            "body-too-large",
            f"cannot send a body of {size} bytes: layover.max_body_bytes is {max_body}",
            "put the material into a file that the agent can read and send its path, or raise the limit",
        )
    for label, text, most in (("key", request.key, MAX_KEY), ("name", request.name, MAX_NAME)):
        if text is not None and not (0 < len(text) <= most and text.isprintable()):
            raise InvalidError(
                f"bad-{label}", f"cannot use this {label}", f"give 1 to {most} printable characters on one line"
            )
    if abs(request.priority or 0) > MAX_PRIORITY:
        raise InvalidError(
            "bad-priority", f"cannot use priority {request.priority}", f"give {-MAX_PRIORITY} to {MAX_PRIORITY}"
        )


def _receiver(factory: Factory, name: str) -> Agent:
    agent = factory.agents.get(name)
    if agent is None:
        raise unknown_agent(factory, name)
    if not agent.enabled:
        raise RefusedError(
            "disabled",
            f"cannot send to {name}: it is disabled",
            f"set agents.{name}.enabled = true in the configuration",
        )
    return agent


def _check_entry(factory: Factory, agent: Agent) -> None:
    if not agent.entry:
        doors = ", ".join(sorted(one.name for one in factory.agents.values() if one.entry)) or "none"
        raise RefusedError(
            "no-entry",
            f"cannot send to {agent.name}: it is not an entry, so only agents with a route may send to it",
            f"send to an entry agent ({doors}), into a pipeline, or set agents.{agent.name}.entry = true",
        )
