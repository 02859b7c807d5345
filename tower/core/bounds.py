"""What keeps an agent within its bounds, in words: what is enforced, and what it could do all the same.

Said before anything runs, by `tower explain`. What a sandbox holds is `confinement`'s; what could not be enforced for
one run is on its record. The whole account stands in `docs/workspaces.md`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tower.core.confinement import BEYOND, Confinement
from tower.core.factory import Access, Agent, Factory


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """One sentence about an agent."""

    words: str
    enforced: bool
    """Otherwise it is kept by the agent's good will alone."""


def bounds(factory: Factory, agent: Agent, held: Confinement) -> tuple[Bound, ...]:
    """What holds for the runs of an agent that is confined like this, what is enforced first."""
    refusal = (f"no run of it starts: {held.refusal}",) if held.refusal is not None else ()
    enforced = (*refusal, _place(factory, agent), *held.enforced, *_limits(factory, agent), *_ALWAYS)
    network = ("it has the machine's network",) if held.network and agent.network else ()
    return (
        *(Bound(words=words, enforced=True) for words in enforced),
        *(Bound(words=words, enforced=False) for words in (*held.advisory, *network, BEYOND)),
    )


def _place(factory: Factory, agent: Agent) -> str:
    if agent.access is Access.READ_ONLY:
        return f"it works in a snapshot of {agent.work_dir}"
    if factory.settings.shared_writers:
        return f"it works in the live tree {agent.work_dir}, beside other writers"
    return f"it works in the live tree {agent.work_dir}, as the only run of the tower that writes there"


def _limits(factory: Factory, agent: Agent) -> Iterator[str]:
    unit = "turn" if agent.resident else "run"
    yield f"a {unit} is ended after {agent.timeout_sec:g} s"
    if agent.stall_sec is not None:
        yield f"a {unit} that prints nothing for {agent.stall_sec:g} s is ended"
    if agent.first_output_sec is not None:
        yield f"a {unit} that prints nothing in its first {agent.first_output_sec:g} s is ended"
    receivers = sorted({route.receiver for route in factory.routes if route.sender == agent.name})
    yield f"it can send to {', '.join(receivers)}, along its routes" if receivers else "it can send to nobody"


_ALWAYS = (
    "it sees the variables that were declared, those that the tower sets, and no others",
    "forwarded values are struck out of all that is stored of its output",
    "its processes end with it, whatever they forked or ignore",
    "the control socket takes it for an agent, never for a person",
)
