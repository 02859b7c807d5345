"""A copy whose path never changes: its content is exchanged, and the folder that a program stands in stays."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tower.core.errors import TowerError
from tower.system.stablecopy import renew_copy


@pytest.fixture
def live(tmp_path: Path) -> Path:
    tree = tmp_path / "live"
    (tree / "sub" / "deep").mkdir(parents=True)
    (tree / "sub" / "deep" / "a.txt").write_text("one\n")
    (tree / "top.txt").write_text("top\n")
    for command in (
        ["init", "-q", "-b", "main"],
        ["add", "."],
        ["-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-qm", "first"],
    ):
        subprocess.run(["git", "-C", str(tree), *command], check=True)
    return tree


def renew(live: Path, tmp_path: Path, at: str, below: str = "") -> Path:
    made = renew_copy(
        live=str(live / below),
        folder=str(tmp_path / "copy"),
        at=at,
        head_only=False,
        include=(),
        exclude=(),
    )
    return Path(made.path)


@pytest.mark.parametrize("below", ["", "sub/deep"])
def test_the_folder_stays_and_holds_what_is_there_now(live: Path, tmp_path: Path, below: str) -> None:
    place = renew(live, tmp_path, "1", below)
    folder = os.open(place, os.O_RDONLY)
    try:
        (place / "scratch").write_text("mine\n")
        (live / "top.txt").unlink()
        (live / below / "new.txt").write_text("new\n")
        assert renew(live, tmp_path, "2", below) == place
        assert sorted(os.listdir(folder)) == sorted(os.listdir(live / below))
    finally:
        os.close(folder)
    top = Path(str(place).removesuffix(below))
    assert not (top / "top.txt").exists()
    status = subprocess.run(
        ["git", "-C", str(place), "status", "--porcelain"], capture_output=True, text=True, check=True
    )
    assert status.stdout.split() == ["D", "top.txt", "??", f"{below}/new.txt".lstrip("/")] or "new.txt" in status.stdout
    subprocess.run(["git", "-C", str(place), "log", "-1"], check=True, capture_output=True)
    assert [path.name for path in (tmp_path / "copy").iterdir() if path.name != "tree"] == ["at-2"]


def test_what_an_agent_did_to_its_copy_keeps_nothing_from_being_renewed(live: Path, tmp_path: Path) -> None:
    place = renew(live, tmp_path, "1", "sub/deep")
    (place / "locked").mkdir()
    (place / "locked" / "x").write_text("x")
    (place / "locked").chmod(0o500)
    place.chmod(0o500)
    assert os.listdir(renew(live, tmp_path, "2", "sub/deep")) == ["a.txt"]
    subprocess.run(["rm", "-rf", str(place.parent)], check=True)
    (tmp_path / "copy" / "tree" / "sub").symlink_to(live)
    assert os.listdir(renew(live, tmp_path, "3", "sub/deep")) == ["a.txt"]
    assert (live / "sub" / "deep" / "a.txt").exists()


def test_a_tree_that_cannot_be_taken_leaves_the_copy_as_it_was(live: Path, tmp_path: Path) -> None:
    place = renew(live, tmp_path, "1")
    (live / ".git").rename(live / "gone")
    with pytest.raises(TowerError):
        renew(live, tmp_path, "2")
    assert (place / "top.txt").exists()
