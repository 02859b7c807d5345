"""What the tests of the engine, and of the verbs above it, run on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from trio.testing import MockClock

from .scripted import Scene


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    """Trio, on a clock that jumps to the next deadline when nothing else can happen."""
    return "trio", {"clock": MockClock(autojump_threshold=0)}


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    """An empty factory folder, in which nothing is served yet."""
    scene = Scene(tmp_path, monkeypatch)
    yield scene
    scene.keepers.clear()
