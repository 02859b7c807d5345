from __future__ import annotations

import os
from pathlib import Path

import pytest
from trees import User, add_special, everything, make_hostile, nasty, write

from tower.core.errors import TowerError
from tower.system.changes import MOST, Changes, changes_since


@pytest.fixture
def user(tmp_path: Path) -> User:
    return User(tmp_path / "home")


@pytest.fixture
def live(tmp_path: Path, user: User) -> Path:
    return user.repository(tmp_path / "live")


def test_nothing_happened(user: User, live: Path) -> None:
    assert changes_since(str(live), user.git(live, "rev-parse", "HEAD")) == Changes(branch="main")


def test_commits_and_what_is_not_committed(user: User, live: Path) -> None:
    base = user.git(live, "rev-parse", "HEAD")
    user.git(live, "checkout", "-q", "-b", "feature/x")
    write(live, {"a.txt": "2\n"})
    user.commit(live, "second \x1b[2J subject")
    user.commit(live, "third")
    write(live, {"staged.txt": "s\n", "new/deep.txt": "n\n", "sub/b.txt": "edited\n", "no\nline.txt": "x\n"})
    user.git(live, "add", "staged.txt")
    (live / "a.txt").unlink()
    before = everything(live)
    told = changes_since(str(live / "sub"), base)
    ids = user.git(live, "log", "--format=%h", "-2").split()
    assert told.commits == (f"{ids[0]} third", f"{ids[1]} second \\x1b[2J subject")
    assert told.files == ("a.txt", "new/deep.txt", "no\\nline.txt", "staged.txt", "sub/b.txt")
    assert (told.branch, told.more, told.unknown) == ("feature/x", 0, None)
    assert everything(live) == before


def test_lists_are_bounded(user: User, live: Path) -> None:
    base = user.git(live, "rev-parse", "HEAD")
    for number in range(MOST + 3):
        user.git(live, "commit", "-q", "--allow-empty", "-m", str(number))
    write(live, {f"f{number:03}.txt": "x\n" for number in range(MOST + 5)})
    told = changes_since(str(live), base)
    assert len(told.commits) == MOST
    assert told.commits[0].endswith(f" {MOST + 2}")
    assert (len(told.files), told.more) == (MOST, 5)


def test_a_tree_that_had_no_commit(tmp_path: Path, user: User) -> None:
    (tmp_path / "new").mkdir()
    user.git(tmp_path / "new", "init", "-q")
    write(tmp_path / "new", {"a.txt": "a\n"})
    assert changes_since(str(tmp_path / "new"), None) == Changes(files=("a.txt",), branch="main")
    user.commit(tmp_path / "new", "first")
    told = changes_since(str(tmp_path / "new"), None)
    assert [line.partition(" ")[2] for line in told.commits] == ["first"]
    assert told.files == ()


def test_a_base_that_is_gone_is_said(user: User, live: Path) -> None:
    write(live, {"a.txt": "2\n"})
    told = changes_since(str(live), "1" * 40)
    assert told.files == ("a.txt",)
    assert told.commits == ()
    assert told.unknown is not None
    assert told.unknown.startswith("cannot run git log")


def test_a_detached_head(user: User, live: Path) -> None:
    user.git(live, "checkout", "-q", "--detach")
    assert changes_since(str(live), user.git(live, "rev-parse", "HEAD")) == Changes()


def test_no_repository(tmp_path: Path) -> None:
    told = changes_since(str(tmp_path), None)
    assert told.files == told.commits == ()
    assert told.unknown is not None
    assert "is not in a git repository" in told.unknown


def test_the_nasty_one_stays_as_it_is_and_executes_nothing(tmp_path: Path, user: User) -> None:
    live = nasty(user, tmp_path / "live")
    add_special(live)
    marker = make_hostile(live)
    before = everything(live)
    told = changes_since(str(live), None)
    assert {"both.txt", "intended.txt", "caf\\xe9.txt"} & set(told.files) == {"both.txt", "intended.txt"}
    assert everything(live) == before
    assert not marker.exists()


def test_a_sparse_index(user: User, live: Path) -> None:
    user.git(live, "sparse-checkout", "set", "--cone", "--sparse-index", "other")
    before = everything(live)
    assert changes_since(str(live), user.git(live, "rev-parse", "HEAD")) == Changes(branch="main")
    assert everything(live) == before


def test_no_room_to_look_from(user: User, live: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", os.devnull)
    with pytest.raises(TowerError, match="cannot tell what changed in"):
        changes_since(str(live), None)
