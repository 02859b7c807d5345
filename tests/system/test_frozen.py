"""Frozen trees: one per content, shared, refreshed from the nearest, bounded, and never dropped while they are read."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from trees import User, contents, everything, write

from tower.core.errors import InvalidError, TowerError
from tower.system import frozen
from tower.system.frozen import MADE, Frozen, FrozenTrees
from tower.system.layout import Layout
from tower.system.workspace import remove_workspace

Take = Callable[..., Frozen]


@pytest.fixture
def user(tmp_path: Path) -> User:
    return User(tmp_path / "home")


@pytest.fixture
def live(tmp_path: Path, user: User) -> Path:
    return user.repository(tmp_path / "live")


@pytest.fixture
def trees(tmp_path: Path) -> FrozenTrees:
    return FrozenTrees(tmp_path / "cache", remove_workspace)


def take(trees: FrozenTrees, run: str, live: Path, **how: Any) -> Frozen:
    return trees.take(run, live=str(live), **{"head_only": False, "include": (), "exclude": ()} | how)


def there(trees: FrozenTrees) -> list[str]:
    return sorted(path.name for path in trees.cache.iterdir())


def test_one_content_is_laid_out_once(trees: FrozenTrees, live: Path, user: User) -> None:
    write(live, {"new.txt": "untracked\n"})
    before = everything(live)
    first, second = take(trees, "run_1", live), take(trees, "run_2", live)
    assert everything(live) == before
    assert (first.how, second.how) == ("made", "found")
    assert first.tree == second.tree
    assert contents(Path(first.tree)) == contents(live)
    assert user.status(Path(first.tree)) == user.status(live)
    assert user.git(Path(first.tree), "log", "--format=%s") == "first"
    assert there(trees) == [first.key]


@pytest.mark.parametrize(
    "change",
    [
        lambda live, user: write(live, {"a.txt": "two\n"}),
        lambda live, user: write(live, {"c.txt": "new\n"}),
        lambda live, user: user.git(live, "rm", "-q", "--cached", "a.txt"),
        lambda live, user: user.git(live, "branch", "another"),
        lambda live, user: user.git(live, "commit", "-q", "--allow-empty", "-m", "second"),
        lambda live, user: user.git(live, "checkout", "-q", "--detach"),
        lambda live, user: (live / "a.txt").chmod(0o755),
    ],
    ids=["edited", "added", "staged", "branch", "commit", "detached", "mode"],
)
def test_whatever_an_agent_could_tell_apart_is_another_tree(
    trees: FrozenTrees, live: Path, user: User, change: Callable[[Path, User], object]
) -> None:
    first = take(trees, "run_1", live)
    change(live, user)
    second = take(trees, "run_2", live)
    assert second.key != first.key
    for tree in (Path(second.tree),):
        assert contents(tree) == contents(live)
        assert user.status(tree) == user.status(live)
        assert user.git(tree, "rev-parse", "HEAD") == user.git(live, "rev-parse", "HEAD")
        assert user.git(tree, "for-each-ref") == user.git(live, "for-each-ref")


def test_an_idle_tree_is_brought_to_the_new_content(trees: FrozenTrees, live: Path, user: User) -> None:
    write(live, {f"many/{number}.txt": f"{number}\n" for number in range(50)})
    user.commit(live, "many")
    first = take(trees, "run_1", live)
    kept = (Path(first.tree) / "many/7.txt").stat().st_ino
    trees.let_go("run_1")
    write(live, {"many/8.txt": "changed\n", "fresh/x.txt": "new\n"})
    (live / "sub/b.txt").unlink()
    (live / "a.txt").unlink()
    (live / "a.txt").symlink_to("many/7.txt")
    second = take(trees, "run_2", live)
    assert second.how == "refreshed"
    assert (Path(second.tree) / "many/7.txt").stat().st_ino == kept
    assert contents(Path(second.tree)) == contents(live)
    assert user.status(Path(second.tree)) == user.status(live)
    assert there(trees) == [second.key]


def test_edits_of_equal_size_in_one_moment_are_all_seen(trees: FrozenTrees, live: Path) -> None:
    for number in range(10):
        write(live, {"a.txt": f"{number:03}\n"})
        assert (Path(take(trees, "run_1", live).tree) / "a.txt").read_text() == f"{number:03}\n"
        trees.let_go("run_1")


def test_one_in_use_is_neither_refreshed_nor_dropped(trees: FrozenTrees, live: Path) -> None:
    first = take(trees, "run_1", live)
    write(live, {"a.txt": "two\n"})
    second = take(trees, "run_2", live)
    assert second.how == "made"
    assert trees.drop_idle(0) == ()
    assert there(trees) == sorted((first.key, second.key))
    assert (Path(first.tree) / "a.txt").read_text() == "one\n"
    trees.let_go("run_1")
    trees.drop_idle(1)
    assert there(trees) == [second.key]
    trees.let_go("run_2")
    trees.drop_idle(0)
    assert there(trees) == []


def test_what_an_earlier_tower_held_is_held(trees: FrozenTrees, live: Path) -> None:
    first = take(trees, "run_1", live)
    after = FrozenTrees(trees.cache, remove_workspace)
    after.hold("run_1", first.key)
    after.sweep()
    after.drop_idle(0)
    assert there(after) == [first.key]
    after.let_go("run_1")
    after.drop_idle(0)
    assert there(after) == []


def test_the_longest_unused_goes_first(trees: FrozenTrees, live: Path) -> None:
    keys = []
    for number in range(3):
        write(live, {"a.txt": f"{number}\n"})
        keys.append(take(trees, f"run_{number}", live).key)
    for number, key in enumerate(keys):
        os.utime(trees.cache / key, (number, number))
        trees.let_go(f"run_{number}")
    write(live, {"a.txt": "0\n"})
    assert take(trees, "run_again", live).how == "found"
    trees.let_go("run_again")
    trees.drop_idle(2)
    assert there(trees) == sorted((keys[0], keys[2]))


def test_what_a_crash_or_a_power_cut_left_is_swept(trees: FrozenTrees, live: Path) -> None:
    first = take(trees, "run_1", live)
    trees.let_go("run_1")
    for stray in (".new-half", ".gone-half", "no-record"):
        (trees.cache / stray / "tree").mkdir(parents=True)
    trees.sweep()
    assert there(trees) == [first.key]
    made = trees.cache / first.key / MADE
    made.write_text(json.dumps(json.loads(made.read_text()) | {"boot": "another"}))
    trees.sweep()
    assert there(trees) == []


def test_a_failure_half_way_leaves_nothing(trees: FrozenTrees, live: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Layout, "lay_out", fail)
    with pytest.raises(TowerError, match="no space left"):
        take(trees, "run_1", live)
    assert there(trees) == []
    with pytest.raises(InvalidError):
        take(trees, "run_1", live.parent)


def test_a_subfolder_is_found_in_the_same_tree(trees: FrozenTrees, live: Path) -> None:
    first, below = take(trees, "run_1", live), take(trees, "run_2", live / "sub")
    assert below.how == "found"
    assert below.workspace.path == f"{first.tree}/sub"


def test_nested_repositories_are_there_with_their_state(trees: FrozenTrees, live: Path, user: User) -> None:
    inner = user.repository(live / "inner", {"x.txt": "one\n"})
    first = take(trees, "run_1", live)
    trees.let_go("run_1")
    write(inner, {"x.txt": "two\n"})
    second = take(trees, "run_2", live)
    assert first.key != second.key
    assert (Path(second.tree) / "inner/x.txt").read_text() == "two\n"
    assert user.git(Path(second.tree) / "inner", "log", "--format=%s") == "first"


def test_many_at_once_make_one(trees: FrozenTrees, live: Path) -> None:
    taken: list[Frozen] = []
    threads = [Thread(target=lambda n=n: taken.append(take(trees, f"run_{n}", live))) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({one.tree for one in taken}) == 1
    assert len(taken) == 6
    assert there(trees) == [taken[0].key]


def test_head_alone_is_another_tree(trees: FrozenTrees, live: Path) -> None:
    write(live, {"a.txt": "uncommitted\n"})
    take(trees, "run_1", live)
    head = take(trees, "run_2", live, head_only=True)
    assert (Path(head.tree) / "a.txt").read_text() == "one\n"
    assert frozen.TREE in head.tree
