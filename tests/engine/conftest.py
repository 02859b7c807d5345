"""What the tests of the engine, and of the verbs above it, run on."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from trio.testing import MockClock

from .scripted import Scene

IN_MEMORY = Path("/dev/shm")
"""Here nothing waits for a disk: that what is written is durable is not what these tests are about."""


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    """Trio, on a clock that jumps to the next deadline when nothing else can happen."""
    return "trio", {"clock": MockClock(autojump_threshold=0)}


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    """An empty factory folder, in which nothing is served yet."""
    folder = Path(tempfile.mkdtemp(prefix="tower-", dir=IN_MEMORY if IN_MEMORY.is_dir() else None))
    scene = Scene(folder, monkeypatch)
    yield scene
    scene.keepers.clear()
    shutil.rmtree(folder)
