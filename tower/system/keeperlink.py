"""The connection of a tower to one keeper: words in, requests out.

Nothing of an agent's output passes here, only words about it; what a word means for the run is left to the engine.
How a connection comes to be is `keeping`'s part.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

import anyio

from tower.core.errors import ConflictError
from tower.core.launch import KEEPER_PROTOCOL
from tower.system import procfs

GONE_WITHIN: Final = 5.0
"""Seconds from a keeper's last word to the end of its process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grew:
    """The logs have these logical sizes now, in bytes."""

    out: int
    err: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """The run is being ended: `why` is the word of a request to stop, or the limit that passed."""

    why: str


@dataclass(frozen=True, slots=True)
class Exited:
    """The program has ended and its exit is recorded; what it left is being ended."""


@dataclass(frozen=True, slots=True)
class Gone:
    """Nothing of the run is left, or the record says what is."""


@dataclass(frozen=True, slots=True)
class Turn:
    """The last turn that a resident's keeper has begun to tell; 0 for none."""

    number: int


Word = Grew | Ending | Exited | Gone | Turn


class KeeperLink:
    """A connection to the keeper of one run, whose program was started. The keeper goes on when it is closed."""

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
        self.is_grouped = False
        """The program is in a control group of its own."""

    @property
    def is_alive(self) -> bool:
        """Whether the keeper's process still lives; a connection can end before it does."""
        return procfs.is_same(self.pid, self.ticks, procfs.boot_id())

    def words(self) -> AsyncIterator[Word]:
        """What the keeper says, until its connection ends; then, as a rule, its process has ended too."""
        return _Words(self)

    async def stop(self, word: str, grace: float) -> None:
        """Ask for the end of the run, for the reason `word`, with `grace` seconds before force is used.

        Asked again, only a shorter grace has an effect. Raises ConflictError (keeper-protocol).
        """
        await self._ask(f"stop {word} {grace}")

    async def poke(self) -> None:
        """Say that the run made a tool call, so that it is not taken for stalled. Raises ConflictError."""
        await self._ask("poke")

    async def turn(self, number: int, *limits: float | None) -> None:
        """Have a resident told the turn that lies in its folder, with timeout, stall and first output in seconds.

        A word `Turn` answers. Raises ConflictError.
        """
        await self._ask(" ".join(["turn", str(number), *("-" if it is None else f"{it:.3f}" for it in limits)]))

    async def done(self) -> None:
        """Say that the turn is over, so that its limits do not count any more. Raises ConflictError."""
        await self._ask("done")

    def forsake(self) -> None:
        """End a keeper that does not have its plan yet: it ends by itself when nobody is there to tell it."""
        child = _children.get(self.pid)
        if child is not None:
            child.kill()
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    async def aclose(self) -> None:
        """Part from the keeper. Doing so twice is fine."""
        if self._socket.fileno() >= 0:
            anyio.notify_closing(self._socket)
            self._socket.close()
        reap_keepers()

    async def send(self, data: bytes) -> None:
        """Send everything. Raises OSError."""
        view = memoryview(data)
        while view:
            try:
                view = view[self._socket.send(view) :]
            except BlockingIOError:
                await anyio.wait_writable(self._socket)

    async def read_line(self) -> str | None:
        """The next line, without its end; None when the connection has ended."""
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

    async def read_hello(self) -> bool:
        """Learn who the keeper is; False when it is no keeper of this run."""
        match (await self.read_line() or "").split():
            case ["hello", protocol, pid, ticks, self.run]:
                self.protocol, self.pid, self.ticks = int(protocol), int(pid), int(ticks)
                return True
        return False

    async def read_start(self) -> str | None:
        """What became of the start, the line whole; None when the keeper did not say."""
        line = await self.read_line()
        match (line or "").split():
            case ["started", pid, ticks, group]:
                self.agent_pid, self.agent_ticks = int(pid), int(ticks)
                self.is_grouped = group == "grouped"
        return line

    async def wait_gone(self) -> None:
        """Wait for the end of the process behind a connection that has ended, and reap it if it is our child."""
        try:
            fd = os.pidfd_open(self.pid)
        except OSError:
            return reap_keepers()
        try:
            if self.pid in _children or self.is_alive:
                with anyio.move_on_after(GONE_WITHIN):
                    await anyio.wait_readable(fd)
        finally:
            os.close(fd)
        return reap_keepers()

    async def _ask(self, line: str) -> None:
        """Send a line. A keeper that is gone is no error here: `words` ends, and its record says how it went."""
        if self.protocol != KEEPER_PROTOCOL:
            raise ConflictError(
                "keeper-protocol",
                f"cannot ask anything of the keeper of {self.run}: it speaks version {self.protocol}",
                "it was started by another version of Tower; wait for the run to end, or end its process",
            )
        try:
            await self.send(f"{line}\n".encode("ascii"))
        except OSError:
            return


class _Words:
    """An iterator that may be left at any time: a generator would have to be closed."""

    def __init__(self, link: KeeperLink) -> None:
        self._link = link

    def __aiter__(self) -> _Words:
        return self

    async def __anext__(self) -> Word:
        while (line := await self._link.read_line()) is not None:
            word = _read_word(line)
            if word is not None:
                return word
        await self._link.wait_gone()
        raise StopAsyncIteration


_children: Final[dict[int, subprocess.Popen[bytes]]] = {}
"""Keepers that this process started and has not yet reaped."""


def adopt_child(child: subprocess.Popen[bytes]) -> None:
    """Remember a keeper that was started, until it has ended and is reaped."""
    _children[child.pid] = child


def reap_keepers() -> None:
    """Wait for keepers of this process's own that have ended."""
    for pid, child in list(_children.items()):
        if child.poll() is not None:
            del _children[pid]


def _read_word(line: str) -> Word | None:
    """A word of the protocol; None for one that only a newer keeper knows."""
    match line.split():
        case ["grew", out, err]:
            return Grew(out=int(out), err=int(err))
        case ["ending", why]:
            return Ending(why=why)
        case ["turn", number] if number.isdecimal():
            return Turn(int(number))
        case ["exited"]:
            return Exited()
        case ["gone"]:
            return Gone()
    return None
