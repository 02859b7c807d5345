"""Addresses that the tower is served at over TCP, as the configuration writes them (`127.0.0.1:8080`, `[::1]:0`)."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Final

LOOPBACK: Final = "127.0.0.1"
MCP_PATH: Final = "/mcp"
"""Where agents find the tower's tools."""


@dataclass(frozen=True, slots=True)
class Address:
    """An IP address and a port; port 0 is a free one of the tower's choice."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return ipaddress.ip_address(self.host).is_loopback

    def url(self, path: str) -> str:
        """A URL by which a program on this machine reaches it."""
        found = ipaddress.ip_address(self.host)
        if found.is_unspecified:
            found = ipaddress.ip_address(LOOPBACK if found.version == 4 else "::1")
        return f"http://{_written(found)}:{self.port}{path}"

    def __str__(self) -> str:
        return f"{_written(ipaddress.ip_address(self.host))}:{self.port}"


def parse(text: str) -> Address:
    """Read `ADDRESS:PORT`. Raises `ValueError` with words that complete "it ..."."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ValueError("must end in a port from 0 to 65535")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError("must have brackets around an IPv6 address")
    try:
        return Address(str(ipaddress.ip_address(LOOPBACK if host == "localhost" else host)), int(port))
    except ValueError:
        raise ValueError("must begin with an IP address, or localhost") from None


def _written(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> str:
    return str(address) if address.version == 4 else f"[{address}]"
