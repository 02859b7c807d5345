"""What tower and keeper agree on: how a keeper is started, the shape of its plan, the names in a run's folder.

Both sides import this, so it is as light as the keeper has to be. The words that cross the socket afterwards are
lines of ASCII, listed here and written where they are said:

keeper to tower   `hello PROTOCOL PID TICKS RUN`, then `void`, `failed STEP DETAIL` or `started PID TICKS GROUP`
                  (`grouped`: in a control group of its own, or `alone`);
                  `grew OUT ERR` (logical sizes), `ending WHY`, `exited`, `gone`; of a resident, `turn NUMBER` (the
                  last one that was begun, or 0)
tower to keeper   the plan, once, from the tower that started it; `stop WORD GRACE`, `poke`; for a resident,
                  `turn NUMBER TIMEOUT STALL FIRST_OUTPUT` (seconds or `-`; the file is there) and `done`
"""

from __future__ import annotations

import marshal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final, TypedDict

    class LimitSeconds(TypedDict):
        """`core.launch.Limits` as it crosses."""

        timeout: float | None
        stall: float | None
        first_output: float | None
        grace: float
        linger: float
        orphan: float

    class WallsPlan(TypedDict):
        """`core.launch.Walls` as it crosses."""

        prefix: list[bytes]
        overlay: list[bytes]
        landlock: list[bytes] | None

    class Plan(TypedDict):
        """`core.launch.KeeperPlan` as it crosses: text that the system sees is bytes already."""

        run: str
        folder: bytes
        socket_dir: bytes
        socket_name: bytes
        argv: list[bytes]
        env: dict[bytes, bytes]
        cwd: bytes
        umask: int
        cgroup: bytes | None
        descriptor_limit: int | None
        limits: LimitSeconds
        max_log_bytes: int
        resident: bool
        stop_signal: int
        walls: WallsPlan | None
        patterns: list[bytes]
        failpoints: dict[str, str]


PROTOCOL: Final = 1
"""The same as `core.launch.KEEPER_PROTOCOL`, which is too heavy to import here; a test holds them together."""

NAME: Final = "tower-keeper"
"""Stands in a keeper's argument vector before the folder of its socket, the run, and `DEVICE:INODE` of the folder."""

PAYLOAD: Final = "payload.md"
START: Final = "start"
EXIT: Final = "exit.json"
STDOUT: Final = "stdout"
STDERR: Final = "stderr"
"""Names in the folder of a run; the two logs are `NAME.log`, `NAME.log.1` and so on."""

TURNS: Final = "turns"
TOLD: Final = ".told"
VOID: Final = ".void"
"""A resident's turns lie in `turns/NUMBER`. Whoever renames one decides: the keeper tells it, or nobody ever will."""

LENGTH_BYTES: Final = 4
"""Big-endian, before the marshalled plan."""

ARGUMENT_BYTES: Final = 12 << 10
"""Room for the argument vector of a keeper: the interpreter, a folder (PATH_MAX is 4096 each), a run and a place."""

_BOOT: Final = "import sys;sys.path.append({root!r});from tower.system.keeper.main import main;main()"


def command(python: str, root: str, socket_dir: str, run: str, place: str) -> list[str]:
    """The argument vector of a keeper; `root` is the folder that holds the package `tower`."""
    return [python, "-I", "-S", "-c", _BOOT.format(root=root), NAME, socket_dir, run, place]


def nursery_command(python: str, root: str) -> list[str]:
    """The argument vector of a nursery, which forks keepers: long enough to be overwritten by that of any of them."""
    boot = f"import sys;sys.path.append({root!r});from tower.system.keeper.nursery import main;main()"
    return [python, "-I", "-S", "-c", boot, " " * ARGUMENT_BYTES]


def pack(plan: Plan) -> bytes:
    """The plan as it is sent."""
    data = marshal.dumps(dict(plan))
    return len(data).to_bytes(LENGTH_BYTES, "big") + data


def unpack(data: bytes) -> Plan:
    """The plan from what follows the length. Only ever fed by the tower that started this keeper."""
    plan: Plan = marshal.loads(data)  # noqa: S302
    return plan
