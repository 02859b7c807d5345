"""A finding is one line that an editor can follow."""

from __future__ import annotations

import pytest

from tower.cli import findings
from tower.config.problems import Problem

from .documents import finding


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ({}, "layover.toml:14:3: agents.tester.timeout_sec: must be greater than 0; write seconds"),
        (
            {"severity": "warning"},
            "layover.toml:14:3: warning: agents.tester.timeout_sec: must be greater than 0; write seconds",
        ),
        ({"line": 0, "column": 0, "key": "", "hint": ""}, "layover.toml: must be greater than 0"),
    ],
)
def test_a_finding_in_full(changes: dict[str, object], shown: str) -> None:
    assert findings.full(finding(**changes)) == shown


def test_an_error_reads_as_the_configuration_package_itself_writes_it() -> None:
    assert findings.full(finding()) == str(Problem(**finding()))
