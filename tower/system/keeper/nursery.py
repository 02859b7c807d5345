"""A process that has loaded what a keeper needs, and forks one for each request of its tower.

Starting Python and importing cost three times what a keeper itself does. A request comes with the keeper's end of its
connection; the child is then a keeper like any other, in a session of its own, and named by its argument vector, which
is how others know it. The nursery ends when its tower does; the keepers go on.
"""

from __future__ import annotations

import _socket as socket
import ctypes
import gc
import os
import sys

from tower.system.keeper.main import main as keep
from tower.system.keeper.protocol import NAME
from tower.system.prctl import make_undumpable

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from typing import Final, NoReturn
else:
    import _signal as signal

REQUEST_BYTES: Final = 12 << 10
"""A folder (PATH_MAX is 4096), a run and a place, with room to spare."""

_FD: Final = 4
"""Bytes of one passed descriptor."""


def main() -> NoReturn:
    """Serve until the tower is gone."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    # Nobody asks how a keeper ended: what matters is in its record. Ignored, the kernel reaps them at once.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    arguments = _argument_area()
    make_undumpable()
    control = socket.socket(fileno=os.dup(0))
    gc.freeze()
    while True:
        request, passed, _, _ = control.recvmsg(REQUEST_BYTES, socket.CMSG_SPACE(_FD))
        if not request:
            os._exit(0)
        for _, _, data in passed:
            _answer(request, int.from_bytes(data[:_FD], sys.byteorder), control, arguments)


def _answer(request: bytes, connection: int, control: socket.socket, arguments: tuple[int, int]) -> None:
    try:
        pid = os.fork()
    except OSError:
        pid = -1  # the tower sees its connection end before a hello, and tries again
    if pid != 0:
        os.close(connection)
        return
    try:
        control.close()
        os.setsid()
        os.dup2(connection, 0)
        os.close(connection)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        words = [NAME, *map(os.fsdecode, request.split(b"\0"))]
        _rename(words, *arguments)
        sys.argv = ["-c", *words]
        keep()
    finally:
        os._exit(70)


def _argument_area() -> tuple[int, int]:
    """Where this process's argument vector lies in its memory: address and size in bytes."""
    with open("/proc/self/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    start, end = int(fields[45]), int(fields[46])
    return start, end - start


def _rename(words: list[str], address: int, size: int) -> None:
    """Overwrite the argument vector, which the nursery was given long enough for every keeper.

    One that does not fit is not cut: by a false name nobody would know the keeper.
    """
    first = [sys.executable.encode(), b"-I", b"-S", b"-c", b""]
    text = b"\0".join([*first, *map(os.fsencode, words), b""])
    if len(text) > size:
        raise ValueError("the argument vector does not fit")
    ctypes.memmove(address, text.ljust(size, b"\0"), size)
