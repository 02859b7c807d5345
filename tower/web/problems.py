"""Errors as RFC 9457 problem documents, the framework's own included.

Owns which HTTP status an error is. The sentences and hints come with the errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from tower.core.errors import BusyError, ConflictError, InvalidError, NotFoundError, RefusedError, TowerError

MEDIA_TYPE: Final = "application/problem+json"

STATUSES: Final[dict[type[TowerError], int]] = {
    RefusedError: 403,
    NotFoundError: 404,
    ConflictError: 409,
    InvalidError: 422,
    BusyError: 503,
}

STATUSES_BY_CODE: Final = {
    "malformed": 400,
    "bad-token": 401,
    "no-token": 401,
    "slow-request": 408,
    "too-large": 413,
    "media-type": 415,
    "head-too-large": 431,
    "disk-full": 507,
}
"""Codes that HTTP has a better word for than for their kind."""

RETRY_SECONDS: Final = 1
"""What a busy tower tells clients to wait: descriptors and locks come free in moments."""


class Problem(BaseModel):
    """Why a request was not carried out (RFC 9457)."""

    type: str = Field(description="names the code as a URI", examples=["urn:layover:problem:no-route"])
    title: str = Field(description="the kind of problem, in a few words")
    status: int = Field(description="the HTTP status, again")
    detail: str = Field(description="one sentence that names the thing")
    hint: str = Field(description="what to do about it; empty when there is nothing")
    code: str = Field(description="stable, for programs")


def describe(error: TowerError) -> Problem:
    """The document for one of Tower's errors."""
    by_kind = next((status for kind, status in STATUSES.items() if isinstance(error, kind)), 500)
    return _problem(STATUSES_BY_CODE.get(error.code, by_kind), error.code, error.sentence, error.hint)


def answer(problem: Problem, headers: Mapping[str, str] | None = None) -> Response:
    """A response that carries the document."""
    extra = {"retry-after": str(RETRY_SECONDS)} if problem.status == HTTPStatus.SERVICE_UNAVAILABLE else {}
    return Response(
        content=encode(problem),
        status_code=problem.status,
        media_type=MEDIA_TYPE,
        headers=extra | dict(headers or {}),
    )


def encode(problem: Problem) -> bytes:
    """The document's bytes. Names of files in a sentence may be no UTF-8; then they are shown replaced."""
    return (
        problem.model_copy(
            update={name: _clean(getattr(problem, name)) for name in ("title", "detail", "hint", "code", "type")}
        )
        .model_dump_json()
        .encode()
    )


def raw_answer(problem: Problem) -> bytes:
    """A whole HTTP/1.1 response, for connections that no application serves."""
    body = encode(problem)
    phrase = HTTPStatus(problem.status).phrase
    head = (
        f"HTTP/1.1 {problem.status} {phrase}\r\ncontent-type: {MEDIA_TYPE}\r\ncontent-length: {len(body)}\r\n"
        f"retry-after: {RETRY_SECONDS}\r\nconnection: close\r\n\r\n"
    )
    return head.encode("ascii") + body


def install(app: FastAPI) -> None:
    """Have every error of the application answered by a problem document."""

    async def tower_error(_: Request, error: Exception) -> Response:
        return answer(describe(error)) if isinstance(error, TowerError) else answer(_internal())

    async def framework_error(request: Request, error: Exception) -> Response:
        if not isinstance(error, HTTPException):
            return answer(_internal())
        return answer(_of_framework(request, error), error.headers)

    async def invalid(_: Request, error: Exception) -> Response:
        return answer(_of_validation(error.errors()) if isinstance(error, RequestValidationError) else _internal())

    async def unexpected(_: Request, __: Exception) -> Response:
        return answer(_internal())  # the server logs it

    app.add_exception_handler(TowerError, tower_error)
    app.add_exception_handler(HTTPException, framework_error)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(Exception, unexpected)


def _problem(status: int, code: str, detail: str, hint: str = "") -> Problem:
    return Problem(
        type=f"urn:layover:problem:{code}",
        title=code.replace("-", " "),
        status=status,
        detail=detail,
        hint=hint,
        code=code,
    )


def _internal() -> Problem:
    return _problem(
        500, "internal", "cannot answer: the tower met an error of its own", "look at its log; this is a bug"
    )


def _of_framework(request: Request, error: HTTPException) -> Problem:
    path = f"{request.method} {request.url.path}"[:200]
    if error.status_code == HTTPStatus.NOT_FOUND:
        return _problem(404, "no-such-path", f"cannot {path}: there is no such path", "/openapi.json lists them")
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        allowed = (error.headers or {}).get("allow", "")
        return _problem(405, "no-such-method", f"cannot {path}: that path has no such method", f"it has {allowed}")
    if error.status_code == HTTPStatus.BAD_REQUEST:
        return _problem(400, "malformed", f"cannot read the request: {error.detail}", "send one JSON object")
    return _problem(error.status_code, f"http-{error.status_code}", f"cannot {path}: {error.detail}")


def _of_validation(errors: Any) -> Problem:
    """All that is wrong, in one sentence; values are left out, since they may be secret or 10 MB long."""
    if any(one["type"] == "json_invalid" for one in errors):
        words = "; ".join(str(one.get("ctx", {}).get("error", one["msg"])) for one in errors)
        return _problem(400, "malformed", f"cannot read the body as JSON: {words}", "send one JSON object")
    words = "; ".join(f"{_place(one['loc'])}: {_lower(one['msg'])}" for one in errors)
    return _problem(422, "invalid", f"cannot take the request: {words}", "/openapi.json describes what is expected")


def _place(location: tuple[str | int, ...]) -> str:
    where, *names = map(str, location)
    return ".".join(names) or where


def _lower(message: str) -> str:
    return message[:1].lower() + message[1:]


def _clean(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
