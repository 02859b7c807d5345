"""Arming the named failpoints, for crash tests alone: `TOWER_FAILPOINTS=name=kill,name=stop`.

Neither the shipped unit nor the image sets the variable, and it is never passed on to a run.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from functools import partial
from typing import Final

from tower.core import failpoint

VARIABLE: Final = "TOWER_FAILPOINTS"
IN_KEEPERS: Final = (*failpoint.KEEPER_NAMES, *failpoint.KEEPER_TURN_NAMES)
ACTIONS: Final = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}


def arm(environ: Mapping[str, str]) -> None:
    """End, or stop, this very process at each named place. Raises `ValueError` for a name that stands nowhere."""
    for name, action in _named(environ).items():
        if name not in IN_KEEPERS:
            failpoint.arm(name, partial(os.kill, os.getpid(), ACTIONS[action]))


def for_keepers(environ: Mapping[str, str]) -> dict[str, str]:
    """Those that stand in the keeper: they travel in its plan."""
    return {name: action for name, action in _named(environ).items() if name in IN_KEEPERS}


def _named(environ: Mapping[str, str]) -> dict[str, str]:
    items = (item.partition("=") for item in environ.get(VARIABLE, "").split(",") if item)
    return {name: action for name, _, action in items}
