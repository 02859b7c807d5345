"""The tower's end of its nursery: the process that forks its keepers, ready made.

What a keeper is and what is said to it afterwards is `keeping`'s part; here one is only brought into being. Where the
nursery cannot be had, a keeper is started by itself, which costs more and is the same otherwise.
"""

from __future__ import annotations

import array
import os
import socket
import subprocess
import sys
from types import TracebackType
from typing import Final, Self

from tower.core.launch import KeeperPlan
from tower.system.keeper.ancestry import place_of
from tower.system.keeper.protocol import nursery_command
from tower.system.keeperlink import KeeperLink
from tower.system.keeping import ROOT, spawn_keeper

TRIES: Final = 2
"""The nursery itself may have been killed: then a new one is asked."""


class Nursery:
    """Forks keepers while the block runs; at its end the process goes, and its keepers stay."""

    def __init__(self) -> None:
        self._control: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def spawn(self, plan: KeeperPlan) -> KeeperLink:
        """A keeper that knows nothing yet. Raises StartFailedError."""
        for _ in range(TRIES):
            try:
                if self._control is None:
                    self._open()
                return self._fork(plan)
            except BlockingIOError:
                break  # more requests than it can take in; it is no less able afterwards
            except OSError:
                self._close()
        return spawn_keeper(plan)

    def _fork(self, plan: KeeperPlan) -> KeeperLink:
        assert self._control is not None  # noqa: S101 (opened by the caller)
        words = (plan.socket_dir, plan.run, place_of(plan.socket_dir))
        request = b"\0".join(map(os.fsencode, words))
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                passed = array.array("i", [theirs.fileno()])
                self._control.sendmsg([request], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, passed)])
            except OSError:
                ours.close()
                raise
        return KeeperLink(ours, plan.run, 0)

    def _open(self) -> None:
        """Raises OSError."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            try:
                self._process = subprocess.Popen(
                    nursery_command(sys.executable, ROOT),
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                    cwd="/",
                    env={},
                )
            except OSError:
                ours.close()
                raise
        ours.setblocking(False)
        self._control = ours

    def _close(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
