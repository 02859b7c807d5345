"""Who is asking: a person at the socket, or a run. A descendant of a run is never a person."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """One caller, as the door identified it. Of an agent `run` or `process` is set, of a person neither."""

    name: str
    """The person's login name, or the agent's name."""
    run: str | None = None
    process: str | None = None
    """A resident's process whose token was shown between two turns: it is an agent and speaks for no flight."""

    @property
    def is_person(self) -> bool:
        return self.run is None and self.process is None
