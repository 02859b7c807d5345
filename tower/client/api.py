"""The API of a running tower, as its client sees it: find it, ask it, and say in words what went wrong.

Owns patience (how long silence is borne) and the run's token. Paths and documents of the API belong to the verbs
that use them, the words for a tower that cannot be reached to `unreachable`.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Mapping
from typing import Any, Final

from tower.client import discover, problems, unreachable, wire
from tower.client.discover import Place

ANSWER_SECONDS: Final = 10.0
"""How long one reply may stay silent. A tower answers in milliseconds; a disk that is flushed hard, in a second."""

Query = Mapping[str, str | int | float | bool | None]


class Api:
    """One tower. It is looked for at the first request, and the place that answered is kept.

    Every method raises the `TowerError` that the tower answered with, and `UnreachableError` when none answered.
    """

    def __init__(
        self,
        given: str | None,
        environ: Mapping[str, str],
        folder: str | None,
        *,
        seconds: float = ANSWER_SECONDS,
        note: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`given` is `--socket`, `folder` where the search for a configuration begins, `note` hears remarks."""
        self._places = discover.places(given, environ, folder)
        self._config = discover.nearest_config(environ, folder)
        self._token = environ.get("LAYOVER_RUN_TOKEN")
        self._seconds = seconds
        self._note = note
        self._place: Place | None = None

    @property
    def socket_path(self) -> str:
        """The socket that answered, or the first that would be tried."""
        return (self._place or self._places[0]).path

    def get(self, path: str, query: Query | None = None, *, wait: float = 0.0) -> dict[str, Any]:
        """GET a document. `wait` is how many seconds the tower was asked to hold its answer back."""
        return problems.document(self._request("GET", path, query, None, wait), self.socket_path)

    def post(self, path: str, document: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """POST a document (an empty one by default) and return the answer."""
        return problems.document(self._request("POST", path, None, document or {}), self.socket_path)

    def relay(self, path: str, body: bytes, headers: Mapping[str, str]) -> wire.Reply:
        """POST JSON that somebody else has written, and return the reply as it is. Raises `UnreachableError`."""
        return self._request("POST", path, None, None, written=body, more=headers)

    def delete(self, path: str) -> dict[str, Any]:
        """DELETE and return the answer; an answer without content is an empty document."""
        reply = self._request("DELETE", path, None, None)
        return {} if reply.status == 204 else problems.document(reply, self.socket_path)

    def read(self, path: str, query: Query | None = None, *, wait: float = 0.0) -> wire.Reply:
        """GET bytes that are no JSON (a log, a payload, an answer)."""
        reply = self._request("GET", path, query, None, wait)
        problems.check(reply, self.socket_path)
        return reply

    def _request(
        self,
        method: str,
        path: str,
        query: Query | None,
        document: Mapping[str, Any] | None,
        wait: float = 0.0,
        *,
        written: bytes | None = None,
        more: Mapping[str, str] | None = None,
    ) -> wire.Reply:
        link = self._dial()
        with link:
            link.settimeout(self._seconds + wait)
            body = written if document is None else json.dumps(document).encode()
            headers = self._headers(body) | dict(more or {})
            try:
                return wire.exchange(link, method, path + _query(query or {}), headers, body or b"")
            except TimeoutError:
                raise unreachable.silent(self.socket_path, self._seconds + wait, link) from None
            except wire.GarbledError as error:
                raise unreachable.foreign(self.socket_path, str(error)) from error
            except (wire.CutError, OSError) as error:
                raise unreachable.cut(self.socket_path, method, error) from error

    def _headers(self, body: bytes | None) -> dict[str, str]:
        headers = {"Accept": "application/json"}
        if body is not None:
            headers |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
        # Inside a run the token says whose run it is, so that the flight is sent by that agent.
        if self._token and self._token.isascii() and self._token.isprintable():
            headers["Authorization"] = f"Bearer {self._token}"
        return headers

    def _dial(self) -> socket.socket:
        failed: list[tuple[Place, OSError]] = []
        for place in [self._place] if self._place else self._places:
            try:
                link = wire.dial(place.path, self._seconds)
            except BlockingIOError:
                raise unreachable.silent(place.path, self._seconds, None) from None
            except OSError as error:
                failed.append((place, error))
            else:
                self._place = place
                if failed and failed[0][0].config and not place.config:
                    self._note(f"nothing answers at {failed[0][0].path}; asking the tower at {place.path}")
                return link
        raise unreachable.nowhere(failed, self._config, answered_before=self._place is not None)


def _query(query: Query) -> str:
    pairs = [f"{key}={quote(_plain(value))}" for key, value in query.items() if value is not None]
    return "?" + "&".join(pairs) if pairs else ""


def _plain(value: str | int | float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


_UNRESERVED: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


def quote(text: str) -> str:
    """Percent-encode a path segment or a query value (RFC 3986; urllib.parse would cost more than the request)."""
    return "".join(
        chr(byte) if byte in _UNRESERVED else f"%{byte:02X}" for byte in text.encode(errors="surrogateescape")
    )
