"""What the tower tells its service manager: ready, reloading, stopping, alive, and one line of truth.

Owns the datagrams of systemd's sd_notify protocol. When to send which is the daemon's business.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

STATUS_BYTES: Final = 512
"""A status line is shown in one row by systemctl; longer ones only hide their end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceManager:
    """The service manager above this process, or nobody: then every message is dropped."""

    address: str | None = None
    """Path of the datagram socket, or `@name` in the abstract namespace."""
    watchdog_seconds: float | None = None
    """Without a sign of life for so long the manager ends us; signs are due at half that time."""

    @classmethod
    def from_variables(cls, environ: Mapping[str, str], pid: int) -> ServiceManager:
        """Read `NOTIFY_SOCKET`, `WATCHDOG_USEC` and `WATCHDOG_PID`; `pid` is this process."""
        address = environ.get("NOTIFY_SOCKET", "")
        if not address.startswith(("/", "@")) or len(address) < 2:
            return cls()
        microseconds = environ.get("WATCHDOG_USEC", "")
        meant_for_us = environ.get("WATCHDOG_PID", str(pid)) == str(pid)
        watched = meant_for_us and microseconds.isdecimal() and int(microseconds) > 0
        return cls(address=address, watchdog_seconds=int(microseconds) / 1e6 if watched else None)

    def ready(self, status: str | None = None) -> bool:
        """Started, or done with reloading."""
        return self._send("READY=1", *_status(status))

    def reloading(self) -> bool:
        """A reload has begun; `ready` ends it."""
        return self._send("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self, status: str | None = None) -> bool:
        """The end has begun."""
        return self._send("STOPPING=1", *_status(status))

    def status(self, text: str) -> bool:
        """One line for `systemctl status`."""
        return self._send(*_status(text))

    def watchdog(self) -> bool:
        """A sign of life."""
        return self._send("WATCHDOG=1")

    def extend_timeout(self, seconds: float) -> bool:
        """Ask for so much more time, from now, to finish starting or stopping."""
        return self._send(f"EXTEND_TIMEOUT_USEC={int(seconds * 1e6)}")

    def _send(self, *lines: str) -> bool:
        """Send one datagram; False when there is nobody, or nobody who takes it. Never waits."""
        if self.address is None or not lines:
            return False
        address = "\0" + self.address[1:] if self.address.startswith("@") else self.address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as link:
                link.sendto("\n".join(lines).encode(), os.fsencode(address))
        except OSError:
            return False
        return True


def _status(text: str | None) -> tuple[str, ...]:
    """The line as an assignment; a line break in it would be an assignment of its own."""
    if text is None:
        return ()
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    cut = line.encode("utf-8", "replace")[:STATUS_BYTES].decode("utf-8", "ignore")
    return (f"STATUS={cut}",)
