"""A live tree on a file system that is mounted read-only: readers work as ever, and who would write is told."""

from __future__ import annotations

from pathlib import Path

import pytest
from readonly import mounted_read_only, needs_mounts
from trees import User, contents, everything, write

from tower.core.errors import BusyError, TowerError
from tower.system.frozen import FrozenTrees
from tower.system.rescue import rescue
from tower.system.snapshot import take_snapshot
from tower.system.treestore import difference, name_tree
from tower.system.workspace import remove_workspace, why_no_place
from tower.system.worktree import make_worktree

pytestmark = needs_mounts


@pytest.fixture
def user(tmp_path: Path) -> User:
    return User(tmp_path / "home")


@pytest.fixture
def live(tmp_path: Path, user: User) -> Path:
    made = user.repository(tmp_path / "live")
    write(made, {"a.txt": "uncommitted\n", "new.txt": "untracked\n"})
    return made


def test_snapshots_are_taken_of_it(live: Path, tmp_path: Path, user: User) -> None:
    before = everything(live)
    with mounted_read_only(live):
        taken = take_snapshot(live=str(live), folder=str(tmp_path / "shot"))
        trees = FrozenTrees(tmp_path / "frozen", remove_workspace)
        frozen = trees.take("run_1", live=str(live), head_only=False, include=(), exclude=())
        assert contents(Path(taken.path)) == contents(Path(frozen.tree)) == contents(live)
        assert user.status(Path(taken.path)) == user.status(live)
        assert taken.notes == ()
    assert everything(live) == before


def test_it_is_named_and_compared(live: Path, tmp_path: Path) -> None:
    store = str(tmp_path / "trees")
    before = name_tree(str(live), store)
    write(live, {"a.txt": "two\n"})
    with mounted_read_only(live):
        assert b"+two" in difference(store, before.tree, name_tree(str(live), store).tree)


def test_what_would_write_there_says_that_it_cannot(live: Path, tmp_path: Path) -> None:
    with mounted_read_only(live):
        why = why_no_place(str(live), writes=True)
        assert why is not None
        assert why[0] == f"{live} lies on a file system that is mounted read-only"
        assert "remount" in why[1]
        assert why_no_place(str(live), writes=False) is None
        with pytest.raises(BusyError, match=r"cannot keep what is not committed in .*failed to write"):
            rescue(str(live), "run_1", store=str(tmp_path / "trees"))
        with pytest.raises(TowerError, match=r"cannot make a work tree in .*: read-only file system"):
            make_worktree(str(live), str(tmp_path / "trees/itn_1"), "tower/itn_1")
        assert not (tmp_path / "trees/itn_1").exists()
    assert why_no_place(str(live), writes=True) is None
