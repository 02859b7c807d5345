"""What a run changed, shown from the trees named before and after, and undone by git from what was shown."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from trees import User, contents, everything, write

from tower.core.errors import ConflictError, InvalidError, NotFoundError
from tower.system import treestore
from tower.system.treestore import Form, difference, name_tree


@pytest.fixture
def live(tmp_path: Path, user: User) -> Path:
    return user.repository(tmp_path / "live")


@pytest.fixture
def user(tmp_path: Path) -> User:
    return User(tmp_path / "home")


@pytest.fixture
def store(tmp_path: Path) -> str:
    return str(tmp_path / "trees")


def change(live: Path, user: User) -> None:
    """Everything that an agent may do to files, committed and not."""
    write(live, {"a.txt": "changed\n", "new/deep.txt": "untracked\n"})
    (live / "bytes").write_bytes(bytes(range(256)) * 3)
    user.commit(live, "by the agent")
    (live / "sub/b.txt").unlink()
    (live / "link").symlink_to("a.txt")
    (live / "a.txt").chmod(0o755)
    os.rename(os.fsencode(live / "new/deep.txt"), os.fsencode(live) + b"/new/f\xfc\n.txt")


def test_what_changed_is_shown_and_undone_by_one_command(live: Path, user: User, store: str) -> None:
    write(live, {"kept.txt": "uncommitted before the run\n"})
    before_files = contents(live)
    before = name_tree(live=str(live), store=store)
    change(live, user)
    untouched = everything(live)
    after = name_tree(live=str(live), store=store)
    assert everything(live) == untouched
    assert not any(path.stat().st_mode & 0o077 for path in Path(store).rglob("objects/??/*"))
    patch = difference(store, before.tree, after.tree)
    assert b"-one\n+changed" in patch
    assert b"GIT binary patch" in patch
    assert b"kept.txt" not in patch
    undone = subprocess.run(["git", "apply", "-R"], input=patch, cwd=live, env=user.env, capture_output=True)
    assert undone.stderr == b""
    assert contents(live) == before_files


def test_nothing_changed_is_the_same_tree(live: Path, store: str) -> None:
    assert name_tree(str(live), store).tree == name_tree(str(live / "sub"), store).tree


def test_the_whole_repository_is_named_from_a_subfolder_and_short_forms_say_what(live: Path, store: str) -> None:
    before = name_tree(str(live / "sub"), store)
    write(live, {"a.txt": "two\n"})
    after = name_tree(str(live / "sub"), store)
    assert difference(store, before.tree, after.tree, Form.NAMES) == b"M\ta.txt\n"
    assert b"1 file changed" in difference(store, before.tree, after.tree, Form.STAT)


def test_nested_repositories_are_shown_as_files_of_the_one_around_them(
    live: Path, user: User, store: str, tmp_path: Path
) -> None:
    origin = user.repository(tmp_path / "origin", {"s.txt": "one\n", "same.txt": "same\n"})
    user.git(live, "submodule", "--quiet", "add", str(origin), "module")
    user.commit(live, "module")
    user.repository(live / "stray", {"x.txt": "one\n"})
    user.repository(live / "module/deeper", {"y.txt": "one\n"})
    before = name_tree(str(live), store)
    write(live, {"module/s.txt": "two\n", "stray/x.txt": "two\n", "module/deeper/y.txt": "two\n"})
    user.commit(live / "stray", "second")
    after = name_tree(str(live), store)
    patch = difference(store, before.tree, after.tree)
    names = sorted(difference(store, before.tree, after.tree, Form.NAMES).split())
    assert names == [b"M", b"M", b"M", b"module/deeper/y.txt", b"module/s.txt", b"stray/x.txt"]
    subprocess.run(["git", "apply", "-R"], input=patch, cwd=live, env=user.env, check=True)
    assert (live / "module/deeper/y.txt").read_text() == (live / "stray/x.txt").read_text() == "one\n"
    assert before.notes == ()


def test_a_nested_repository_that_cannot_be_read_is_said(live: Path, user: User, store: str) -> None:
    user.repository(live / "other", {"x.txt": "one\n"}, "--object-format=sha256")
    (note,) = name_tree(str(live), store).notes
    assert note == "what changes in other, a repository of its own, is not shown"


def test_a_difference_outlives_commits_and_branches_that_are_dropped(live: Path, user: User, store: str) -> None:
    before = name_tree(str(live), store)
    write(live, {"a.txt": "never committed\n"})
    after = name_tree(str(live), store)
    write(live, {"a.txt": "one\n"})
    user.git(live, "gc", "-q", "--prune=now")
    assert b"+never committed" in difference(store, before.tree, after.tree)


def test_no_repository_has_no_name(tmp_path: Path, store: str) -> None:
    with pytest.raises(InvalidError, match="not in a git repository"):
        name_tree(str(tmp_path), store)


def test_what_is_gone_is_said(live: Path, store: str) -> None:
    tree = name_tree(str(live), store).tree
    with pytest.raises(NotFoundError, match="not to be found"):
        difference(store, tree, "0" * 39 + "1")
    with pytest.raises(NotFoundError):
        difference(store + "-never-made", tree, tree)


def test_a_patch_that_is_too_large_is_refused_and_its_names_are_not(
    live: Path, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = name_tree(str(live), store)
    write(live, {"a.txt": "x" * 5000})
    after = name_tree(str(live), store)
    monkeypatch.setattr(treestore, "LARGEST", 1000)
    with pytest.raises(ConflictError, match="cannot show the patch"):
        difference(store, before.tree, after.tree)
    assert difference(store, before.tree, after.tree, Form.NAMES) == b"M\ta.txt\n"
