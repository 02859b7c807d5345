"""What the tests of the engine, and of the verbs above it, run on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .scripted import Scene, empty_scene, jumping_clock


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    """Trio, on a clock that jumps."""
    return "trio", jumping_clock()


@pytest.fixture
def scene() -> Iterator[Scene]:
    """An empty factory folder, in which nothing is served yet."""
    with empty_scene() as scene:
        yield scene
