"""Requests that a page in somebody's browser made: refused, even on the socket.

A browser cannot open a Unix socket, but people forward one to a port (`ssh -L 8080:/run/tower/tower.sock`), and then
any page can reach it, by its own origin or by a name that is pointed at this machine.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from urllib.parse import urlsplit

from tower.core.errors import RefusedError


def check_origin(hosts: Iterable[str], origins: Iterable[str]) -> None:
    """Raise `RefusedError` unless every `Host` and every `Origin` header names this machine, or there is none."""
    for host in hosts:
        if not _is_here(f"//{host}"):
            raise RefusedError(
                "foreign-host",
                f"cannot answer to the name {host[:80]!r}: only this machine's own names are served",
                "ask for http://localhost/",
            )
    for origin in origins:
        if not _is_here(origin):
            raise RefusedError(
                "foreign-origin",
                f"cannot serve a page of {origin[:80]!r}",
                "use the command line, or curl without an Origin header",
            )


def _is_here(url: str) -> bool:
    """Whether the host of a URL is a loopback address or a name that no name server outside can give out."""
    try:
        name = urlsplit(url).hostname or ""
    except ValueError:
        return False
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        # `localhost`, `tower`: a name without a dot is nobody's to register.
        return bool(name) and ("." not in name or name.endswith(".localhost"))
