from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tower.config.load import Loaded, load

GOOD = """\
[agents.solo]
description = "d"
runner = "none"
prompt = "x"
entry = true
"""
"""The smallest factory that nothing is wrong with, given a folder `workspace`."""

Loads = Callable[..., Loaded]


@pytest.fixture
def loads(tmp_path: Path) -> Loads:
    """Writes a configuration into an empty folder that has a `workspace`, and loads it."""
    (tmp_path / "workspace").mkdir()

    def loads(text: str, environ: Mapping[str, str] | None = None, **files: str) -> Loaded:
        for name, content in files.items():
            (tmp_path / f"{name}.md").write_text(content)
        file = tmp_path / "layover.toml"
        file.write_text(text)
        return load(file, environ=environ or {})

    return loads
