"""Values as every view has them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from tower.core import costs

View = dict[str, Any]


def moment(at: float | None) -> str | None:
    """ISO 8601 in UTC with milliseconds, or None."""
    if at is None:
        return None
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def dollars(micro: int | None) -> float | None:
    """Micro-dollars as dollars; None is not reported, which is not zero."""
    return None if micro is None else micro / costs.MICROS
