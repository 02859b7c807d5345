"""Configuration files, read without a tower: for the verbs that come before it."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import TYPE_CHECKING

from tower.cli import findings, screen
from tower.core.errors import TowerError

if TYPE_CHECKING:
    from pathlib import Path

    from tower.config.load import Loaded
    from tower.core.factory import Factory


def _load(path: Path) -> Loaded:
    from tower.config.load import load  # here, since it imports pydantic and `tower --help` imports every verb

    return load(path, environ=os.environ)


def read(path: Path) -> list[findings.Finding]:
    """Everything that is wrong with the file, as documents."""
    return [asdict(problem) for problem in _load(path).problems]


def quietly(path: Path) -> Factory | None:
    """The factory that a file describes, or None; whatever is wrong with it is for somebody else to say."""
    return _load(path).factory


def good(path: Path) -> Factory:
    """The factory that a file describes. Its errors are said, then raised as one `TowerError`."""
    loaded = _load(path)
    if loaded.factory is None:
        for problem in loaded.problems:
            screen.say(findings.full(asdict(problem)))
        raise TowerError("config", f"cannot use {path}: it has errors", "mend what is listed above")
    return loaded.factory
