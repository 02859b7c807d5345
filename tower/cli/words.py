"""Times, durations, sizes and money in the words of a screen. Pure: clock and zone are the caller's."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

NOTHING: Final = "-"
"""What a column shows that has no value; never 0, which would be a value."""

_UNITS: Final = ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s"))
"""Seconds of a unit and its name, and those of the one below."""


def duration(seconds: float | None) -> str:
    """`0.4 s`, `12 s`, `3 min 5 s`, `2 h 10 min`, `3 d 4 h`."""
    if seconds is None:
        return NOTHING
    if seconds < 10:
        return f"{max(seconds, 0):.1f} s"
    whole = int(seconds)
    for unit, name, below, below_name in _UNITS:
        if whole >= unit:
            rest = whole % unit // below
            return f"{whole // unit} {name} {rest} {below_name}" if rest else f"{whole // unit} {name}"
    return f"{whole} s"


def moment(iso: str | None, now: datetime) -> str:
    """An ISO time in the zone of `now`, to the second."""
    return _local(iso, now, lambda _: "%Y-%m-%d %H:%M:%S")


def brief(iso: str | None, now: datetime) -> str:
    """An ISO time in the zone of `now`, as short as is clear: `14:03:12`, `05-06 14:03`, `2031-05-06`."""
    return _local(iso, now, lambda at: _form(at, now))


def _local(iso: str | None, now: datetime, form: Callable[[datetime], str]) -> str:
    if not iso:
        return NOTHING
    try:
        at = datetime.fromisoformat(iso).astimezone(now.tzinfo)
    except ValueError:
        return iso
    return at.strftime(form(at))


def _form(at: datetime, now: datetime) -> str:
    if at.date() == now.date():
        return "%H:%M:%S"
    return "%m-%d %H:%M" if at.year == now.year else "%Y-%m-%d"


def usd(amount: float) -> str:
    """`$1.20`; less than a cent is shown in full, so that something never looks like nothing."""
    return f"${amount:.6f}".rstrip("0") if 0 < amount < 0.01 else f"${amount:.2f}"


def reserved(reserve: dict[str, Any]) -> str:
    """The Reserve (money of the factory) and what is used of it."""
    aside = f", {usd(reserve['reserved_usd'])} set aside" if reserve["reserved_usd"] else ""
    limit = "no limit" if reserve["limit_usd"] is None else f"of {usd(reserve['limit_usd'])}"
    return f"{usd(reserve['spent_usd'])} spent in {reserve['window_hours']:g} h{aside}, {limit}"


def money(run: dict[str, Any]) -> str:
    """What one run cost; what nobody reported is never shown as nothing."""
    cost = run.get("cost_usd")
    if cost is None:
        return "not reported" if run.get("state") == "ended" else NOTHING
    assumed = "~" if run.get("cost_source") == "assumed" else ""
    return f"{assumed}${cost:.2f}" if cost >= 0.01 or cost == 0 else f"{assumed}${cost:.4f}"


def size(count: int | None) -> str:
    """Bytes in binary units, as `ls -h` has them."""
    if count is None:
        return NOTHING
    amount = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"


def why(flight: dict[str, Any], shown: Callable[[str | None], str]) -> str:
    """What a flight waits for or how it came to its state, with the time of the next try where there is one."""
    reason = str(flight.get("waits_for") or flight["reason"] or "")
    if flight["state"] != "held" or not flight["release_at"]:
        return reason
    return f"{reason}; next try {shown(flight['release_at'])}".removeprefix("; ")


def count(number: int, noun: str) -> str:
    """`1 run`, `2 runs`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
