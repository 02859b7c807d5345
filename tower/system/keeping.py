"""The tower's end of its keepers: starting one, finding one again, listening to it and asking it to stop.

Nothing of an agent's output passes here, only words about it. What a word means for the run is left to the engine;
a keeper's records are read by `runrecords`, its logs by `runlog`.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio

from tower.core.errors import ConflictError, TowerError
from tower.core.launch import KEEPER_PROTOCOL, KeeperPlan
from tower.core.masking import patterns
from tower.system import procfs
from tower.system.keeper.ancestry import place_of
from tower.system.keeper.protocol import command, pack
from tower.system.survivors import reap_orphans

if TYPE_CHECKING:
    from tower.system.keeper.protocol import Plan

ROOT: Final = str(Path(__file__).resolve().parents[2])
"""The folder that holds the package `tower`."""

HELLO_WITHIN: Final = 30.0
"""Seconds for a new keeper to say hello: it takes some 10 ms, on a machine that swaps a thousand times that."""

ANSWER_WITHIN: Final = 5.0
"""Seconds for a keeper that runs to greet a tower that connects."""

GONE_WITHIN: Final = 5.0
"""Seconds from a keeper's last word to the end of its process."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """A line from a keeper, such as `grew 120 0`: see `keeper.protocol`."""

    name: str
    values: tuple[str, ...] = ()


class KeeperLink:
    """A connection to the keeper of one run. The keeper goes on when it is closed."""

    def __init__(self, connection: socket.socket, run: str, pid: int) -> None:
        connection.setblocking(False)
        self._socket = connection
        self._received = b""
        self.run = run
        self.pid = pid
        self.ticks = 0
        self.protocol = 0
        self.agent_pid = 0
        self.agent_ticks = 0

    @property
    def is_alive(self) -> bool:
        """Whether the keeper's process still lives; a connection can end before it does."""
        return procfs.is_same(self.pid, self.ticks, procfs.boot_id())

    async def words(self) -> AsyncIterator[Word]:
        """What the keeper says, until its connection ends; then, as a rule, its process has ended too."""
        while (line := await self._line()) is not None:
            name, *values = line.split(" ", 2)
            yield Word(name=name, values=tuple(values))
        await self._await_end()

    async def stop(self, word: str, grace: float) -> None:
        """Ask for the end of the run, for the reason `word`, with `grace` seconds before force is used."""
        await self._ask(f"stop {word} {grace}")

    async def poke(self) -> None:
        """Say that the run made a tool call, so that it is not taken for stalled."""
        await self._ask("poke")

    async def aclose(self) -> None:
        """Part from the keeper."""
        if self._socket.fileno() >= 0:
            anyio.notify_closing(self._socket)
            self._socket.close()
        _reap_keepers()

    async def _ask(self, line: str) -> None:
        """Send a line. A keeper that is gone is no error here: `words` ends, and its record says how it went."""
        if self.protocol != KEEPER_PROTOCOL:
            raise ConflictError(
                "keeper-protocol",
                f"cannot ask anything of the keeper of {self.run}: it speaks version {self.protocol}",
                "it was started by another version of Tower; wait for the run to end, or end its process",
            )
        try:
            await self._send(f"{line}\n".encode("ascii"))
        except OSError:
            return

    async def _send(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[self._socket.send(view) :]
            except BlockingIOError:
                await anyio.wait_writable(self._socket)

    async def _line(self) -> str | None:
        while b"\n" not in self._received:
            try:
                data = self._socket.recv(65536)
            except BlockingIOError:
                try:
                    await anyio.wait_readable(self._socket)
                except anyio.ClosedResourceError:
                    return None
                continue
            except OSError:
                return None
            if not data:
                return None
            self._received += data
        line, _, self._received = self._received.partition(b"\n")
        return line.decode("ascii", "replace")

    async def _read_hello(self) -> bool:
        """Learn who the keeper is; False when it is no keeper of this run."""
        match (await self._line() or "").split():
            case ["hello", protocol, pid, ticks, self.run]:
                self.protocol, self.pid, self.ticks = int(protocol), int(pid), int(ticks)
                return True
        return False

    async def _read_start(self) -> str | None:
        """What became of the start, the line whole; None when the keeper did not say."""
        line = await self._line()
        match (line or "").split():
            case ["started", pid, ticks]:
                self.agent_pid, self.agent_ticks = int(pid), int(ticks)
        return line

    async def _await_end(self) -> None:
        """Wait for the end of the process behind a connection that has ended, and reap it if it is our child."""
        try:
            fd = os.pidfd_open(self.pid)
        except OSError:
            return _reap_keepers()
        try:
            if self.pid in _children or self.is_alive:
                with anyio.move_on_after(GONE_WITHIN):
                    await anyio.wait_readable(fd)
        finally:
            os.close(fd)
        return _reap_keepers()


_children: Final[dict[int, subprocess.Popen[bytes]]] = {}
"""Keepers that this process started and has not yet reaped."""


async def start_keeper(plan: KeeperPlan, *, on_pid: Callable[[int, int], Awaitable[None]] | None = None) -> KeeperLink:
    """Start a keeper, and by it the program; returns when the program is running.

    `on_pid` is awaited with the keeper's pid and start ticks before it is told anything, so that they can be made
    durable first. When this is cancelled, or `on_pid` raises, before the plan has been sent whole, the keeper is
    ended and nothing has happened; later on it goes on by itself.
    Raises StartFailedError, KeeperVoidError, KeeperLostError.
    """
    _reap_keepers()
    packed = pack(_as_it_crosses(plan))
    link = _spawn(plan)
    is_told = False
    try:
        await _await_hello(link)
        if on_pid is not None:
            await on_pid(link.pid, link.ticks)
        try:
            await link._send(packed)
        except OSError as error:
            raise StartFailedError(plan.run, "keeper", "it ended before it had its plan") from error
        is_told = True
        _judge(plan.run, await link._read_start())
    except BaseException as error:
        with anyio.CancelScope(shield=True):
            if not is_told:
                _children[link.pid].kill()
            if not is_told or isinstance(error, TowerError):
                await link._await_end()
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
                and await link._read_hello()
                and (link.pid, link.ticks) == (pid, ticks)
                and (link.protocol != KEEPER_PROTOCOL or await link._read_start())
            ):
                return link
    except BaseException:
        await link.aclose()
        raise
    await link.aclose()
    return None


def _spawn(plan: KeeperPlan) -> KeeperLink:
    """A keeper that knows nothing yet. Popen in place costs less than a hop to a thread."""
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
    _children[child.pid] = child
    return KeeperLink(ours, plan.run, child.pid)


async def _await_hello(link: KeeperLink) -> None:
    started_as = link.pid
    with anyio.move_on_after(HELLO_WITHIN):
        if await link._read_hello() and link.pid == started_as:
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
        "limits": {
            "timeout": limits.timeout,
            "stall": limits.stall,
            "first_output": limits.first_output,
            "grace": limits.grace,
            "linger": limits.linger,
            "orphan": limits.orphan,
        },
        "max_log_bytes": plan.max_log_bytes,
        "stop_signal": plan.stop_signal,
        "patterns": list(patterns(plan.secrets)),
        "failpoints": dict(plan.failpoints),
    }


def _reap_keepers() -> None:
    """Wait for keepers that have ended, and for what ended after its keeper was killed."""
    for pid, child in list(_children.items()):
        if child.poll() is not None:
            del _children[pid]
    reap_orphans()
