"""Requests that a page in somebody's browser made: refused, even on the socket.

A browser cannot open a Unix socket, but people forward one to a port (`ssh -L 8080:/run/tower/tower.sock`), and then
any page can reach it, by its own origin or by a name that is pointed at this machine.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Container, Iterable
from urllib.parse import urlsplit

from tower.core.errors import RefusedError


def check_public(hosts: Iterable[str], origins: Iterable[str], known: Container[str]) -> None:
    """Raise `RefusedError` unless a request over TCP asks for this machine, or for a name or address of `known`.

    Stricter than on the socket: whoever gives out names in a network may point any at this machine. There must be a
    `Host`, since every browser sends one.
    """
    asked = list(hosts)
    if not asked:
        raise RefusedError("no-host", "cannot answer a request without a Host header", "HTTP/1.1 asks for one")
    for host in asked:
        if not _is_loopback(f"//{host}", known):
            raise RefusedError(
                "foreign-host",
                f"cannot answer to the name {host[:80]!r}",
                "ask for http://localhost/, or add the name to [layover] public_hosts",
            )
    for origin in origins:
        if not _is_loopback(origin, known):
            raise RefusedError(
                "foreign-origin",
                f"cannot serve a page of {origin[:80]!r}",
                "ask without an Origin header, or add the page's host to [layover] public_hosts",
            )


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


def _is_loopback(url: str, known: Container[str]) -> bool:
    """Whether the host of a URL is `localhost`, a loopback address, or one of `known`."""
    try:
        name = (urlsplit(url).hostname or "").rstrip(".")
    except ValueError:
        return False
    if name in known or name == "localhost":
        return bool(name)
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
