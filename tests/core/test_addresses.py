"""Addresses of the TCP port: what is read, and by which URL a program on this machine reaches it."""

from __future__ import annotations

import pytest

from tower.core.addresses import Address, parse


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("127.0.0.1:8080", "http://127.0.0.1:8080/mcp"),
        ("localhost:8080", "http://127.0.0.1:8080/mcp"),
        ("0.0.0.0:8080", "http://127.0.0.1:8080/mcp"),
        ("10.1.2.3:8080", "http://10.1.2.3:8080/mcp"),
        ("[::1]:8080", "http://[::1]:8080/mcp"),
        ("[::]:8080", "http://[::1]:8080/mcp"),
    ],
)
def test_an_address_has_a_url_for_programs_here(text: str, url: str) -> None:
    assert parse(text).url("/mcp") == url
    assert parse(str(parse(text))) == parse(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("127.0.0.1", "port"),
        ("127.0.0.1:", "port"),
        ("127.0.0.1:65536", "port"),
        ("127.0.0.1:²", "port"),
        ("127.0.0.1:-1", "port"),
        ("::1:80", "brackets"),
        ("tower.lan:80", "IP address"),
        (":80", "IP address"),
        ("", "port"),
        ("http://127.0.0.1:80", "brackets"),
    ],
)
def test_what_is_none_is_refused(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse(text)


def test_loopback_is_known() -> None:
    assert Address("127.0.0.1", 1).is_loopback
    assert Address("::1", 1).is_loopback
    assert not Address("0.0.0.0", 1).is_loopback  # noqa: S104
