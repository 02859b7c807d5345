"""Fixtures for tests with real processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from stage import Stage


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(tmp_path)
    yield stage
    stage.clear()
