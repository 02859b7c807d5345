"""Every check of a configuration: a minimal bad file, and all that `tower validate` says of it, word for word.

Each folder of `golden` is one case; its README says how to add one and how to record them anew.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

import tower
from tower.cli.findings import full
from tower.config.load import load
from tower.config.problems import Problem

PACKAGE = Path(tower.__file__).parent
GOLDEN = Path(__file__).with_name("golden")
CASES = sorted(path.name for path in GOLDEN.iterdir() if path.is_dir())
EXPECTED = "expected.txt"
RECORD = "TOWER_RECORD_GOLDEN"


@pytest.fixture
def factory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What every case finds around it: a work tree with a file, a link out of it and a repository, and bad texts."""
    workspace = tmp_path / "workspace"
    (workspace / "repository" / ".git").mkdir(parents=True)
    (workspace / "sub").mkdir()
    (workspace / "out").symlink_to("/usr")
    (workspace / "file").write_text("")
    (tmp_path / "blank.md").write_text(" \n\n")
    (tmp_path / "hollow.md").write_text("# Persona: X\n\n## Persona\n\n## Background\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def shown(problem: Problem, folder: Path) -> Iterator[str]:
    """A problem as `tower validate` prints it, and below it the line that it points at."""
    yield full(asdict(problem)).replace(str(folder), "FOLDER").replace(str(PACKAGE), "TOWER")
    if problem.line:
        line = (folder / problem.file).read_text().split("\n")[problem.line - 1]
        yield f"    {line}"
        yield f"    {' ' * (problem.column - 1)}^"


@pytest.mark.parametrize("case", CASES)
def test_a_mistake_is_said_word_for_word(case: str, factory: Path) -> None:
    shutil.copytree(GOLDEN / case, factory, dirs_exist_ok=True)
    (factory / EXPECTED).unlink(missing_ok=True)
    loaded = load(Path("layover.toml"), environ={"HOME": "/home/ada", "PATH": os.environ["PATH"]})
    said = "\n".join(line for problem in loaded.problems for line in shown(problem, factory)) + "\n"
    expected = GOLDEN / case / EXPECTED
    if RECORD in os.environ:
        expected.write_text(said)
    assert said == expected.read_text()
    severity = case.split("-", maxsplit=1)[0]
    assert (loaded.factory is None) == (severity == "error")
    assert [problem.severity for problem in loaded.problems].count(severity) == 1, "one mistake is one finding"
    if severity == "warning":
        assert len(loaded.problems) == 1


def test_no_case_is_left_without_words() -> None:
    assert CASES
    assert [case for case in CASES if not (GOLDEN / case / EXPECTED).is_file()] == []
