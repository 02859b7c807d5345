"""A factory folder with a git repository, for every test here."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.daemon_process import Daemon


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    """Nothing is served yet. The folder's path is short, as socket paths must be."""
    folder = Path(tempfile.mkdtemp(prefix="tw-"))
    made = Daemon(folder)
    made.repository()
    try:
        yield made
    finally:
        made.clean_up()
        shutil.rmtree(folder, ignore_errors=True)
