"""What every resource needs: the verbs, who calls them, and answers in the API's own way of writing JSON."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import Depends, Path, Request, Response
from pydantic import AfterValidator
from starlette.responses import JSONResponse

from tower.control import Control
from tower.core.callers import Caller


async def _control(request: Request) -> Control:
    control = request.app.state.control
    assert isinstance(control, Control)  # noqa: S101 (set by create_app)
    return control


async def _caller(request: Request) -> Caller:
    caller = request.state.caller
    assert isinstance(caller, Caller)  # noqa: S101 (set by the gate, without which no request comes here)
    return caller


Door = Annotated[Control, Depends(_control)]
Asking = Annotated[Caller, Depends(_caller)]


def whole_characters(text: str) -> str:
    """Text that UTF-8 can hold. Raises `ValueError` for any other, in words for whoever sent it."""
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError("holds half a character (a lone surrogate), which is no text")
    return text


Text = Annotated[str, AfterValidator(whole_characters)]
"""JSON can write what no UTF-8 can hold, and what could not be stored."""

Identity = Annotated[str, Path(max_length=80, description="an id, or any end of one that fits nothing else")]


class Json(JSONResponse):
    """JSON as UTF-8, even when it holds names of files that are none: those are escaped."""

    def render(self, content: Any) -> bytes:
        try:
            return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
        except UnicodeEncodeError:
            return json.dumps(content, allow_nan=False, separators=(",", ":")).encode()


def plain(text: str) -> Response:
    """Text as it is, for eyes and pipes."""
    return Response(content=text.encode("utf-8", "replace"), media_type="text/plain; charset=utf-8")
