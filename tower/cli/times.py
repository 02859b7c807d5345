"""Moments as people write them: `22:00`, `90m`, `2031-05-06 07:00`; read against a clock and a zone that are given."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Final

from tower.core.errors import InvalidError

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_HINT: Final = "write 22:00, 90m, 8h, 2d, or 2031-05-06T07:00"


def past(text: str, now: datetime) -> str:
    """The moment that `text` means when it lies behind: the last 22:00, 8 hours ago.

    ISO 8601. Raises `InvalidError`.
    """
    return _moment(text, now, -1)


def ahead(text: str, now: datetime) -> str:
    """The moment that `text` means when it lies ahead: the next 22:00, in 8 hours.

    ISO 8601. Raises `InvalidError`.
    """
    return _moment(text, now, 1)


def _moment(text: str, now: datetime, way: int) -> str:
    span = re.fullmatch(r"(\d{1,6}(?:\.\d+)?)([smhd])", text.strip())
    if span:
        return (now + way * timedelta(seconds=float(span[1]) * _UNITS[span[2]])).isoformat()
    clock = re.fullmatch(r"(\d{1,2}):(\d{2})(?::(\d{2}))?", text.strip())
    try:
        if clock:
            at = now.replace(hour=int(clock[1]), minute=int(clock[2]), second=int(clock[3] or 0), microsecond=0)
            if (at - now) * way <= timedelta(0):
                at += timedelta(days=way)
            return at.isoformat()
        at = datetime.fromisoformat(text.strip())
    except ValueError:
        raise InvalidError("bad-time", f"cannot take {text[:40]!r} for a time", _HINT) from None
    return (at if at.tzinfo else at.replace(tzinfo=now.tzinfo)).isoformat()
