"""The crash matrix of residents: both agents stay, each flight is a turn, and somebody is killed at each point.

They leave when nothing comes for them (`max_idle_sec`), so that what must hold afterwards is the same as for any run.
"""

from __future__ import annotations

import time

from crash.factory import Client, Factory, Pump, factory, kill
from crash.invariants import examine
from crash.matrix import AGENT, ALL, KEEPER, NURSERY, TOWER, Cell, Result, go_on, table, wait_at
from tower.core.failpoint import KEEPER_NAMES, KEEPER_TURN_NAMES, TURN_NAMES

__all__ = ["cells", "play", "sample", "table"]

CONFIGURATION = """
[runners.first]
command = ["sh", "-c", "{command} second"]
protocol = "jsonl"
[runners.second]
command = ["sh", "-c", "{command}"]
protocol = "jsonl"
[agents.first]
description = "Begins the work and passes it on"
runner = "first"
prompt = "Begin."
access = "{access}"
entry = true
resident = true
max_idle_sec = 0.3
max_recovery_attempts = 9
[agents.second]
description = "Ends the work"
runner = "second"
prompt = "End."
access = "{other}"
resident = true
max_idle_sec = 0.3
max_recovery_attempts = 9
[[routes]]
from = "first"
to = "second"
"""


class Staying(Factory):
    """Two residents along a route."""

    CONFIGURATION = CONFIGURATION


POINTS = ("claim.after", *TURN_NAMES, *KEEPER_TURN_NAMES, "settle.before", "settle.after", *KEEPER_NAMES)

WORKING = ("claim.after", *TURN_NAMES, *KEEPER_TURN_NAMES)
"""Points at which the process is there, and has not answered: agents wait at the gate until the crash."""

PRESENT = {
    "keeper.start-before": (TOWER, KEEPER),
    "keeper.start-after": (TOWER, KEEPER),
    "keeper.swept": (TOWER, KEEPER),
}
"""Who exists at a point; at all others the program does as well."""

EVERY_DAY = (("turn.recorded", KEEPER), ("turn.told", ALL), ("keeper.turn-taken", TOWER), ("settle.before", AGENT))


def cells() -> list[Cell]:
    """The full matrix; the access of the first agent in rotation."""
    return [
        Cell(point, who, ("read-write", "read-only")[(at + turn) % 2])
        for at, point in enumerate(POINTS)
        for turn, who in enumerate((*PRESENT.get(point, (TOWER, KEEPER, AGENT)), ALL))
    ]


def sample() -> list[Cell]:
    """A few, for every day."""
    return [cell for cell in cells() if (cell.point, cell.killed) in EVERY_DAY]


def play(cell: Cell) -> Result:
    """Carry out one crash and look at what is left."""
    began = time.monotonic()
    with factory(cell.access, kind=Staying) as made:
        if cell.point not in WORKING:
            made.open_gate()
        made.must_serve(environ={"TOWER_FAILPOINTS": f"{cell.point}=stop"})
        client = Client(made)
        reached = wait_at(made, cell.point, 1, 20.0)
        chosen = (TOWER, NURSERY, KEEPER, AGENT) if cell.killed == ALL else (cell.killed,)
        kill(
            *([made.tower_pid] if TOWER in chosen else []),
            *(made.nursery() if NURSERY in chosen else []),
            *(made.keepers() if KEEPER in chosen else []),
            *(made.processes() if AGENT in chosen else []),
        )
        if TOWER in chosen:
            assert made.process is not None
            made.process.wait()
            go_on(made)
            made.must_serve()
        go_on(made)
        made.open_gate()
        with Pump(made):
            unfinished = made.finish(client)
            client.leave()
            findings = examine(made, client.acknowledged, unfinished)
    return Result(cell, findings, time.monotonic() - began, reached)
