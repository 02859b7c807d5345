"""Named places between accepting a flight and settling its run, where a test may cut the power.

`failpoint("claim.before")` does nothing unless that name was armed. Arming belongs to the daemon's start, which
reads `TOWER_FAILPOINTS` ("name=action,name=action"); neither the shipped unit nor the image sets it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

NAMES: Final = (
    "send.before-commit",
    "send.after-commit",
    "claim.before",
    "claim.after",
    "workspace.before",
    "workspace.after",
    "folder.after",
    "token.after",
    "keeper.before",
    "keeper.after",
    "keeper.recorded",
    "settle.before",
    "settle.after",
    "workspace.removed",
)
"""In the order in which one flight passes them."""

TURN_NAMES: Final = ("turn.before", "turn.written", "turn.recorded", "turn.told")
"""What a flight to a resident passes in place of the workspace, the token and the keeper, in order."""

KEEPER_NAMES: Final = (
    "keeper.start-before",
    "keeper.start-after",
    "keeper.forked",
    "keeper.exit-before",
    "keeper.exit-after",
    "keeper.swept",
)
"""Inside the keeper, in order; they travel in its plan."""

KEEPER_TURN_NAMES: Final = ("keeper.turn-taken",)
"""Inside the keeper of a resident, once a turn."""

_armed: dict[str, Callable[[], None]] = {}


def arm(name: str, action: Callable[[], None]) -> None:
    """Run `action` whenever the place `name` is passed. Raises `ValueError` for a name that stands nowhere."""
    known = (*NAMES, *TURN_NAMES)
    if name not in known:
        raise ValueError(f"no failpoint is called {name!r}; there are {', '.join(known)}")
    _armed[name] = action


def failpoint(name: str) -> None:
    """Mark a place. Costs one dictionary look-up when nothing is armed."""
    action = _armed.get(name)
    if action is not None:
        action()
