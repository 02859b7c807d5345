"""The TCP port: bound once, and the same again at each start, since programs that live on know it."""

from __future__ import annotations

import errno
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tower.core.addresses import Address
from tower.core.errors import BusyError, InvalidError
from tower.system.files import read_regular, write_private

BACKLOG: Final = 512
"""As many as the control socket has: a burst of agents that start together."""

PORT_BYTES: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """A listening socket and the address that it got."""

    socket: socket.socket
    address: Address
    lost: int | None = None
    """The port that earlier starts had, and that somebody else has now."""

    def close(self) -> None:
        """Stop listening."""
        self.socket.close()


def listen_at(address: Address, kept: Path) -> Port:
    """Listen at an address. For port 0 the one in the file `kept` is tried first, and what is got is kept there.

    Raises `BusyError` when somebody else listens there, `InvalidError` for an address that is not this machine's.
    """
    if address.port:
        return Port(socket=_bound(address), address=address)
    earlier = _earlier(kept)
    if earlier is not None:
        again = Address(address.host, earlier)
        try:
            return Port(socket=_bound(again), address=again)
        except BusyError:
            pass
    bound = _bound(address)
    got = Address(address.host, bound.getsockname()[1])
    try:
        write_private(kept, f"{got.port}\n".encode())
    except OSError as error:
        bound.close()
        raise BusyError(
            "disk-full", f"cannot keep the number of the port in {kept}: {error.strerror}", "make room on that disk"
        ) from error
    return Port(socket=bound, address=got, lost=earlier)


def _earlier(kept: Path) -> int | None:
    text = (read_regular(kept, PORT_BYTES) or b"").decode("ascii", "replace").strip()
    return int(text) if text.isascii() and text.isdigit() and 0 < int(text) < 65536 else None


def _bound(address: Address) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        return socket.create_server((address.host, address.port), family=family, backlog=BACKLOG)
    except OSError as error:
        words = (error.strerror or str(error)).lower()
        if error.errno in (errno.EADDRINUSE, errno.EACCES, errno.EPERM):
            raise BusyError(
                "http-addr",
                f"cannot listen at {address}: {words}",
                "name another port in [layover] http_addr; port 0 takes a free one",
            ) from error
        raise InvalidError(
            "http-addr",
            f"cannot listen at {address}: {words}",
            "name an address of this machine in [layover] http_addr, such as 127.0.0.1:0",
        ) from error
