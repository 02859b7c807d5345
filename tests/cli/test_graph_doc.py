"""docs/graph.md: its drawing is what the command makes of its file."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from .conftest import Cli

DOCS = Path(__file__).parents[2] / "docs"


def test_the_drawing_is_made_of_the_example(cli: Cli, nowhere: Path) -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", (DOCS / "graph.md").read_text(), flags=re.DOTALL)
    (nowhere / "layover.toml").write_text(example)
    (nowhere / "workspace").mkdir()
    subprocess.run(["git", "init", "-q", "workspace"], check=True)
    drawn = cli("graph", "--svg")
    assert drawn.out == (DOCS / "graph.svg").read_text(), "make it anew: tower graph --svg > docs/graph.svg"
