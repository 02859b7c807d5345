"""Who is asking: a person at the socket, or a run. A descendant of a run is never a person."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """One caller, as the door identified it. `run` is set exactly when it is a run."""

    name: str
    """The person's login name, or the agent's name."""
    run: str | None = None

    @property
    def is_person(self) -> bool:
        return self.run is None
