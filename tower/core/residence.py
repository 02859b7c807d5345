"""Where the process of a resident agent stands: one immutable value, a method per event, decisions as values.

A resident is an agent with one process that is kept alive; each flight is one turn of it. Here is when that process
may be started, how long is waited after it ended, and when it is given up. Starting and ending it is the engine's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Final

from tower.core.factory import Agent, Runner

FIRST_PAUSE_SEC: Final = 1.0
LONGEST_PAUSE_SEC: Final = 300.0
"""Pauses after an exit that nobody asked for double from the first to the longest."""

WINDOW_SEC: Final = 600.0
MOST_EXITS: Final = 5
"""So many such exits within the window, and a person has to look at it."""


class ResidentState(StrEnum):
    """Where it stands. Only `ready` takes a turn."""

    STOPPED = "stopped"
    STARTING = "starting"
    READY = "ready"
    BUSY = "busy"
    BACKOFF = "backoff"
    QUARANTINED = "quarantined"
    STOPPING = "stopping"


S = ResidentState

_WITH_PROCESS: Final = frozenset({S.STARTING, S.READY, S.BUSY, S.STOPPING})


@dataclass(frozen=True, slots=True)
class StartNow:
    """Nothing stands in the way of a new process."""


@dataclass(frozen=True, slots=True)
class WaitFor:
    """No new process before so many seconds have passed; None: not before something happens."""

    seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Residence:
    """The state, and what the next decision needs. Times are seconds since the epoch."""

    state: ResidentState = S.STOPPED
    why: str | None = None
    """In words, what led here: why the last process ended, or the present one is to end."""
    exits: tuple[float, ...] = ()
    """When processes ended without being asked to, inside the window."""
    streak: int = 0
    """Such exits in a row, each within a window's length of the one before: the pause grows with them."""
    until: float | None = None
    """When the pause is over."""
    idle: bool = False
    """Ended because nothing came for it: started again for the next flight, and not before."""

    @property
    def has_process(self) -> bool:
        """Whether a process exists, or is about to."""
        return self.state in _WITH_PROCESS

    def starting(self) -> Residence:
        """A process is being started, or one of an earlier tower was found."""
        return self._to(S.STARTING, S.STOPPED, S.BACKOFF, idle=False, until=None)

    def not_started(self, now: float, why: str) -> Residence:
        """It could not be started for now (no room, a variable missing): looked at again, and no exit."""
        return self._to(S.BACKOFF, S.STARTING, why=why, until=now + 5 * FIRST_PAUSE_SEC)

    def started(self) -> Residence:
        """The program runs, and takes turns."""
        return self._to(S.READY, S.STARTING, why=None)

    def turn_began(self) -> Residence:
        return self._to(S.BUSY, S.READY)

    def turn_ended(self) -> Residence:
        """The turn is over and the process goes on; when it is ending already, that stays so."""
        return self if self.state is not S.BUSY else self._to(S.READY, S.BUSY)

    def ending(self, why: str) -> Residence:
        """It was asked to end. Asked twice, the first reason stays."""
        return self if self.state is S.STOPPING else self._to(S.STOPPING, S.STARTING, S.READY, S.BUSY, why=why)

    def ended_as_asked(self, why: str, *, idle: bool = False) -> Residence:
        """The process is gone, as somebody wanted: no failure, and no pause."""
        return self._to(S.STOPPED, *_WITH_PROCESS, why=why, idle=idle)

    def exited(self, now: float, why: str) -> Residence:
        """The process is gone, and nobody had asked for that."""
        last = self.exits[-1] if self.exits else None
        streak = self.streak + 1 if last is not None and now - last < WINDOW_SEC else 1
        exits = (*(at for at in self.exits if now - at < WINDOW_SEC), now)
        known = self._to(S.BACKOFF, *_WITH_PROCESS, why=why, exits=exits, streak=streak)
        if len(exits) >= MOST_EXITS:
            minutes = f"{WINDOW_SEC / 60:.0f} minutes"
            return known.given_up(f"its process ended {len(exits)} times within {minutes}; at last: {why}")
        return replace(known, until=now + pause(streak))

    def found(self) -> Residence:
        """A process of an earlier tower is there, whatever came before it."""
        return replace(self, state=S.STARTING, until=None, idle=False)

    def given_up(self, why: str) -> Residence:
        """Nothing is started any more before a person says so."""
        return replace(self, state=S.QUARANTINED, why=why, until=None)

    def cleared(self) -> Residence:
        """A person wants it to be started anew: the past does not count any more."""
        return self if self.has_process else Residence(why=self.why)

    def wanted(self) -> Residence:
        """A flight waits for it."""
        return replace(self, idle=False) if self.idle else self

    def next(self, now: float) -> StartNow | WaitFor:
        """Whether to start a process, for an agent that is to have one."""
        if self.state is S.STOPPED and not self.idle:
            return StartNow()
        if self.state is S.BACKOFF and self.until is not None:
            return StartNow() if self.until <= now else WaitFor(self.until - now)
        return WaitFor(None)

    def waits(self, now: float) -> str | None:
        """In words, why it takes no turn now; None when it does."""
        match self.state:
            case S.READY:
                return None
            case S.BUSY:
                return "is at work on another flight: one at a time"
            case S.BACKOFF if self.until is not None:
                return f"is started again in {max(0.0, self.until - now):.0f} s ({self.why})"
            case S.QUARANTINED:
                return f"is quarantined ({self.why})"
        return {S.STOPPING: "is being ended", S.STARTING: "is being started"}.get(self.state, "has no process yet")

    def _to(self, state: ResidentState, *sources: ResidentState, **changes: object) -> Residence:
        if self.state not in sources:
            raise ValueError(f"a resident cannot go from {self.state} to {state}")
        return replace(self, state=state, **changes)  # type: ignore[arg-type]


def pause(streak: int) -> float:
    """Seconds before the next start after so many exits in a row."""
    return float(min(LONGEST_PAUSE_SEC, FIRST_PAUSE_SEC * 2 ** min(streak - 1, 30)))


def remembered(exits: Iterable[float], now: float, *, quarantined: str | None) -> Residence:
    """Where a resident without a process stands at a start of the tower, by what the tower before wrote down.

    `exits` are times of exits that nobody had asked for, since a person last cleared it; `quarantined` is why it was
    given up.
    """
    known = Residence()
    for at in sorted(exits):
        known = replace(known, state=S.READY).exited(at, "it ended before the tower was started")
    if quarantined is not None:
        return known.given_up(quarantined)
    if known.state is S.QUARANTINED or known.until is None or known.until <= now:
        return replace(known, state=S.STOPPED, until=None)
    return known


_OF_THE_PROCESS: Final = (
    "name",
    "work_dir",
    "purpose",
    "model",
    "effort",
    "persona",
    "language",
    "role",
    "position",
    "skills",
    "access",
    "env",
    "env_from",
    "args",
    "linger_sec",
    "orphan_sec",
)
"""What a living process has of its agent. The rest (limits, memory, recovery) is looked at for each turn."""


def fingerprint(agent: Agent, runner: Runner) -> str:
    """Tells whether a process that was started with one agent and runner is still what the configuration wants."""
    told = [("instructions", agent.instructions.fingerprint)]
    told += [(name, getattr(agent, name)) for name in _OF_THE_PROCESS]
    told += [(it.name, getattr(runner, it.name)) for it in fields(runner) if it.name != "max_concurrent"]
    plain = [(name, sorted(value.items()) if hasattr(value, "items") else value) for name, value in told]
    return hashlib.sha256(repr(plain).encode(errors="surrogateescape")).hexdigest()
