"""Moments as people write them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tower.cli.times import ahead, past
from tower.core.errors import InvalidError

NOW = datetime(2031, 5, 6, 7, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "before", "after"),
    [
        ("22:00", "2031-05-05T22:00:00+00:00", "2031-05-06T22:00:00+00:00"),
        ("07:30", "2031-05-05T07:30:00+00:00", "2031-05-07T07:30:00+00:00"),
        ("7:29:59", "2031-05-06T07:29:59+00:00", "2031-05-07T07:29:59+00:00"),
        ("90m", "2031-05-06T06:00:00+00:00", "2031-05-06T09:00:00+00:00"),
        ("1.5h", "2031-05-06T06:00:00+00:00", "2031-05-06T09:00:00+00:00"),
        ("2d", "2031-05-04T07:30:00+00:00", "2031-05-08T07:30:00+00:00"),
        ("2031-05-01", "2031-05-01T00:00:00+00:00", "2031-05-01T00:00:00+00:00"),
        ("2031-05-01T07:00+02:00", "2031-05-01T07:00:00+02:00", "2031-05-01T07:00:00+02:00"),
    ],
)
def test_what_a_time_means_behind_and_ahead(text: str, before: str, after: str) -> None:
    assert (past(text, NOW), ahead(text, NOW)) == (before, after)


@pytest.mark.parametrize("text", ["", "tomorrow", "25:00", "7", "-1h", "12:60"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(InvalidError, match="for a time"):
        past(text, NOW)
