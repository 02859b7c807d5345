"""Problem documents (RFC 9457) and other unhappy replies, turned into Tower's errors.

Owns which error a reply is. Which exit code an error becomes is `tower.cli.exits`'.
"""

from __future__ import annotations

import json
from typing import Any, Final

from tower.client import unreachable
from tower.client.wire import Reply
from tower.core.errors import (
    BusyError,
    ConflictError,
    InvalidError,
    NotFoundError,
    RefusedError,
    TowerError,
    UnreachableError,
)

KINDS: Final[dict[int, type[TowerError]]] = {
    400: InvalidError,
    401: RefusedError,
    403: RefusedError,
    404: NotFoundError,
    405: InvalidError,
    408: BusyError,
    409: ConflictError,
    410: NotFoundError,
    411: InvalidError,
    413: InvalidError,
    415: InvalidError,
    422: InvalidError,
    429: BusyError,
    431: InvalidError,
    503: BusyError,
    507: BusyError,
}
"""HTTP status -> error. Any other is a fault of the tower itself and stays a plain `TowerError`."""


def document(reply: Reply, path: str) -> dict[str, Any]:
    """The JSON object that a good reply of the tower at `path` holds.

    Raises the `TowerError` that a problem document stands for, and `UnreachableError` for anything that a tower
    does not say.
    """
    check(reply, path)
    value = _object(reply)
    if value is None:
        raise _foreign(reply, path)
    return value


def check(reply: Reply, path: str) -> None:
    """Raise the error that a reply stands for; a 2xx one passes."""
    if 200 <= reply.status < 300:
        return
    problem = _object(reply)
    if problem is None or "problem" not in reply.headers["content-type"]:
        raise _foreign(reply, path)
    kind = KINDS.get(reply.status, TowerError)
    sentence = _text(problem, "detail") or _text(problem, "title") or f"cannot do that: HTTP status {reply.status}"
    raise kind(_text(problem, "code") or f"http-{reply.status}", sentence, _text(problem, "hint"))


def _object(reply: Reply) -> dict[str, Any] | None:
    if "json" not in reply.headers.get("content-type", ""):
        return None
    try:
        value = json.loads(reply.body)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _text(problem: dict[str, Any], key: str) -> str:
    value = problem.get(key)
    return value if isinstance(value, str) else ""


def _foreign(reply: Reply, path: str) -> UnreachableError:
    kind = reply.headers.get("content-type", "no content type")
    return unreachable.foreign(path, f"HTTP status {reply.status}, {kind}, no document of a tower")
