"""Times, durations, sizes and money as they are shown."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tower.cli import words

NOW = datetime(2031, 5, 6, 12, 0, tzinfo=timezone(timedelta(hours=2)))


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (None, "-"),
        (-0.5, "0.0 s"),
        (0.04, "0.0 s"),
        (9.94, "9.9 s"),
        (10, "10 s"),
        (59.9, "59 s"),
        (60, "1 min"),
        (185, "3 min 5 s"),
        (3600, "1 h"),
        (7800, "2 h 10 min"),
        (86400 * 3 + 4 * 3600 + 59, "3 d 4 h"),
    ],
)
def test_durations(seconds: float | None, shown: str) -> None:
    assert words.duration(seconds) == shown


@pytest.mark.parametrize(
    ("iso", "long", "short"),
    [
        (None, "-", "-"),
        ("2031-05-06T07:08:09.010Z", "2031-05-06 09:08:09", "09:08:09"),
        ("2031-05-05T22:30:00.000Z", "2031-05-06 00:30:00", "00:30:00"),
        ("2031-05-05T21:30:00.000Z", "2031-05-05 23:30:00", "05-05 23:30"),
        ("2030-12-31T10:00:00.000Z", "2030-12-31 12:00:00", "2030-12-31"),
        ("yesterday", "yesterday", "yesterday"),
    ],
)
def test_moments(iso: str | None, long: str, short: str) -> None:
    assert (words.moment(iso, NOW), words.brief(iso, NOW)) == (long, short)


@pytest.mark.parametrize(
    ("run", "shown"),
    [
        ({"cost_usd": None, "state": "running"}, "-"),
        ({"cost_usd": None, "state": "ended"}, "not reported"),
        ({"cost_usd": 0.0, "state": "ended"}, "$0.00"),
        ({"cost_usd": 1.234, "state": "ended"}, "$1.23"),
        ({"cost_usd": 0.0042, "state": "ended"}, "$0.0042"),
        ({"cost_usd": 0.25, "state": "ended", "cost_source": "assumed"}, "~$0.25"),
    ],
)
def test_money_that_nobody_reported_is_not_nothing(run: dict[str, object], shown: str) -> None:
    assert words.money(run) == shown


@pytest.mark.parametrize(
    ("count", "shown"), [(None, "-"), (0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 << 40, "5.0 TiB")]
)
def test_sizes(count: int | None, shown: str) -> None:
    assert words.size(count) == shown


@given(st.floats(0, 1e7))
def test_a_duration_is_never_longer_than_a_column(seconds: float) -> None:
    assert len(words.duration(seconds)) <= 12


def test_counting() -> None:
    assert [words.count(number, "run") for number in (0, 1, 2)] == ["0 runs", "1 run", "2 runs"]


def test_the_zone_is_the_callers() -> None:
    assert words.brief("2031-05-06T07:08:09.010Z", NOW.astimezone(UTC)) == "07:08:09"
