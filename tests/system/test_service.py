"""What systemd is asked about our own unit, and how its answers are read."""

from __future__ import annotations

import pytest

from tower.system.service import is_restart, job_type, unit_of

JOBS = """\
1234 tower.service                      restart running
1235 other.service                      stop    waiting
"""


@pytest.mark.parametrize(
    ("cgroup", "expected"),
    [
        ("0::/system.slice/tower.service\n", ("tower.service", False)),
        ("0::/system.slice/tower.service/daemon\n", ("tower.service", False)),
        ("0::/system.slice/system-tower.slice/tower@ada.service\n", ("tower@ada.service", False)),
        (
            "0::/user.slice/user-1000.slice/user@1000.service/app.slice/tower.service\n",
            ("tower.service", True),
        ),
        ("0::/user.slice/user-1000.slice/session-1.scope\n", None),
        ("12:cpu:/x\n1:name=systemd:/system.slice/tower.service\n", ("tower.service", False)),
        ("1:name=systemd:/old.service\n0::/system.slice/tower.service\n", ("tower.service", False)),
        ("12:cpu:/x\n", None),
        ("", None),
    ],
)
def test_the_unit_is_read_off_the_cgroup(cgroup: str, expected: tuple[str, bool] | None) -> None:
    assert unit_of(cgroup) == expected


@pytest.mark.parametrize(
    ("unit", "expected"), [("tower.service", "restart"), ("other.service", "stop"), ("gone.service", None)]
)
def test_the_job_of_a_unit(unit: str, expected: str | None) -> None:
    assert job_type(JOBS, unit) == expected
    assert job_type("No jobs running.\n", unit) is None


@pytest.mark.anyio
async def test_without_systemd_it_is_no_restart() -> None:
    assert await is_restart({}) is False
