"""Keepers, from the tower's side: starting one, and finding one again.

The connection that both give is `keeperlink`; what a keeper leaves on disk is read by `runrecords` and `runlog`, and
what a killed one leaves alive is ended by `survivors`.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio

from tower.core.errors import TowerError
from tower.core.launch import KEEPER_PROTOCOL, KeeperPlan, Walls
from tower.core.masking import patterns
from tower.system import procfs
from tower.system.keeper.ancestry import place_of
from tower.system.keeper.protocol import command, pack
from tower.system.keeperlink import KeeperLink, adopt_child

if TYPE_CHECKING:
    from tower.system.keeper.protocol import Plan, WallsPlan

__all__ = [
    "KeeperLink",
    "KeeperLostError",
    "KeeperVoidError",
    "StartFailedError",
    "connect_keeper",
    "start_keeper",
]

ROOT: Final = str(Path(__file__).resolve().parents[2])
"""The folder that holds the package `tower`."""

HELLO_WITHIN: Final = 30.0
"""Seconds for a new keeper to say hello: it takes some 10 ms, on a machine that swaps a thousand times that."""

ANSWER_WITHIN: Final = 5.0
"""Seconds for a keeper that runs to greet a tower that connects."""


class StartFailedError(TowerError):
    """The program was not started; nothing of it is left. `step` and `detail` say where it failed, and how."""

    def __init__(self, run: str, step: str, detail: str) -> None:
        super().__init__("start-failed", f"cannot start the program of {run}: {step}: {detail}")
        self.step = step
        self.detail = detail


class KeeperVoidError(TowerError):
    """The start of this run was decided before by another process; this keeper has started nothing."""

    def __init__(self, run: str) -> None:
        super().__init__("start-void", f"cannot start {run}: its start was decided before")


class KeeperLostError(TowerError):
    """The keeper ended after it had its plan and before it said what became of the start: the program may have run."""

    def __init__(self, run: str) -> None:
        super().__init__("keeper-lost", f"cannot tell whether {run} was started: its keeper ended without a word")


async def start_keeper(
    plan: KeeperPlan,
    *,
    spawn: Callable[[KeeperPlan], KeeperLink] | None = None,
    on_pid: Callable[[int, int], Awaitable[None]] | None = None,
) -> KeeperLink:
    """Start a keeper, and by it the program; returns when the program is running.

    `spawn` brings the keeper's process into being: `Nursery.spawn`, or by default an interpreter of its own. `on_pid`
    is awaited with the keeper's pid and start ticks before it is told anything, so that they can be made durable
    first. When this is cancelled, or `on_pid` raises, before the plan has been sent whole, the keeper is ended and
    nothing has happened; later on it goes on by itself.
    Raises StartFailedError, KeeperVoidError, KeeperLostError.
    """
    packed = pack(_as_it_crosses(plan))
    link = await _bring_up(plan, spawn)
    is_told = False
    try:
        if on_pid is not None:
            await on_pid(link.pid, link.ticks)
        try:
            await link.send(packed)
        except OSError as error:
            raise StartFailedError(plan.run, "keeper", "it ended before it had its plan") from error
        is_told = True
        _judge(plan.run, await link.read_start())
    except BaseException as error:
        with anyio.CancelScope(shield=True):
            if not is_told:
                link.forsake()
            if not is_told or isinstance(error, TowerError):
                await link.wait_gone()
            await link.aclose()
        raise
    return link


async def connect_keeper(socket_dir: str, socket_name: str, *, run: str, pid: int, ticks: int) -> KeeperLink | None:
    """Find the keeper of a run again; None when nobody answers, or somebody who is not that process.

    None says nothing about whether the keeper lives: it may be stopped, or have no descriptor left. That is what
    `procfs.is_same` is for.
    """
    connection = _connect(socket_dir, socket_name)
    if connection is None:
        return None
    link = KeeperLink(connection, run, pid)
    peer, _, _ = procfs.peer_credentials(connection)
    try:
        with anyio.move_on_after(ANSWER_WITHIN):
            if (
                peer == pid
                and procfs.start_ticks(pid) == ticks
                and await link.read_hello()
                and (link.pid, link.ticks) == (pid, ticks)
                and (link.protocol != KEEPER_PROTOCOL or await link.read_start())
            ):
                return link
    except BaseException:
        await link.aclose()
        raise
    await link.aclose()
    return None


def spawn_keeper(plan: KeeperPlan) -> KeeperLink:
    """A keeper that knows nothing yet. Popen in place costs less than a hop to a thread. Raises StartFailedError."""
    environment: dict[str, str] = {}
    try:
        ours, theirs = socket.socketpair()
        with theirs, ExitStack() as on_failure:
            on_failure.enter_context(ours)
            child = subprocess.Popen(
                command(sys.executable, ROOT, plan.socket_dir, plan.run, place_of(plan.socket_dir)),
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                cwd="/",
                env=environment,
            )
            on_failure.pop_all()
    except OSError as error:
        raise StartFailedError(plan.run, "keeper", str(error)) from error
    adopt_child(child)
    return KeeperLink(ours, plan.run, child.pid)


async def _bring_up(plan: KeeperPlan, spawn: Callable[[KeeperPlan], KeeperLink] | None) -> KeeperLink:
    """A keeper that has said hello. A nursery that was killed with the request in its hands costs nothing but time."""
    if spawn is not None:
        try:
            return await _greeted(spawn(plan))
        except StartFailedError:
            pass
    return await _greeted(spawn_keeper(plan))


async def _greeted(link: KeeperLink) -> KeeperLink:
    try:
        await _await_hello(link)
    except BaseException:
        with anyio.CancelScope(shield=True):
            link.forsake()
            await link.wait_gone()
            await link.aclose()
        raise
    return link


async def _await_hello(link: KeeperLink) -> None:
    started_as = link.pid
    with anyio.move_on_after(HELLO_WITHIN):
        # One from the nursery says itself who it is.
        if await link.read_hello() and started_as in (link.pid, 0):
            return
        raise StartFailedError(link.run, "keeper", "it ended before it said hello")
    raise StartFailedError(link.run, "keeper", f"it did not say hello within {HELLO_WITHIN:.0f} s")


def _judge(run: str, line: str | None) -> None:
    match (line or "").split(" ", 2):
        case ["started", *_]:
            return
        case ["void"]:
            raise KeeperVoidError(run)
        case ["failed", step, detail]:
            raise StartFailedError(run, step, detail)
    raise KeeperLostError(run)


def _connect(socket_dir: str, socket_name: str) -> socket.socket | None:
    """Through a descriptor of the folder, so that no path is too long."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.setblocking(False)
    try:
        folder = os.open(socket_dir, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            connection.connect(f"/proc/self/fd/{folder}/{socket_name}")
        finally:
            os.close(folder)
    except OSError:
        connection.close()
        return None
    return connection


def _walls(walls: Walls | None) -> WallsPlan | None:
    if walls is None:
        return None
    overlay = walls.overlay
    parts = (overlay.lower, overlay.upper, overlay.work, overlay.at) if overlay else ()
    return {
        "prefix": [os.fsencode(part) for part in walls.prefix],
        "overlay": [os.fsencode(part) for part in parts],
        "landlock": None if walls.landlock is None else [os.fsencode(path) for path in walls.landlock],
    }


def _as_it_crosses(plan: KeeperPlan) -> Plan:
    limits = plan.limits
    return {
        "run": plan.run,
        "folder": os.fsencode(plan.folder),
        "socket_dir": os.fsencode(plan.socket_dir),
        "socket_name": os.fsencode(plan.socket_name),
        "argv": [os.fsencode(part) for part in plan.argv],
        "env": {os.fsencode(name): os.fsencode(value) for name, value in plan.env.items()},
        "cwd": os.fsencode(plan.cwd),
        "umask": plan.umask,
        "cgroup": None if plan.cgroup is None else os.fsencode(plan.cgroup),
        "descriptor_limit": plan.descriptor_limit,
        "limits": {
            "timeout": limits.timeout,
            "stall": limits.stall,
            "first_output": limits.first_output,
            "grace": limits.grace,
            "linger": limits.linger,
            "orphan": limits.orphan,
        },
        "max_log_bytes": plan.max_log_bytes,
        "resident": plan.resident,
        "stop_signal": int(plan.stop_signal),
        "walls": _walls(plan.walls),
        "patterns": list(patterns(plan.secrets)),
        "failpoints": dict(plan.failpoints),
    }
