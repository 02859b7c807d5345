"""The verbs are tested over the same scripted tower as the engine."""

from __future__ import annotations

from engine.conftest import anyio_backend, scene

__all__ = ["anyio_backend", "scene"]
