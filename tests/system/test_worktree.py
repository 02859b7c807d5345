"""Work trees of chains: as git makes them, without running anything, and not removed while something would be lost."""

from __future__ import annotations

from pathlib import Path
from threading import Thread

import pytest
from trees import User, contents, everything, write

from tower.core.errors import ConflictError, InvalidError
from tower.system.worktree import make_worktree
from tower.system.worktree_removal import remove_worktree, why_kept

BRANCH = "tower/itn_1"


@pytest.fixture
def user(tmp_path: Path) -> User:
    return User(tmp_path / "home")


@pytest.fixture
def live(tmp_path: Path, user: User) -> Path:
    return user.repository(tmp_path / "live")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "trees/itn_1"


def test_it_is_a_work_tree_to_git_and_the_live_one_is_as_it_was(live: Path, user: User, place: Path) -> None:
    write(live, {"a.txt": "uncommitted\n"})
    before, status = contents(live), user.status(live)
    made = make_worktree(str(live), str(place), BRANCH)
    assert made.base == user.git(live, "rev-parse", "HEAD")
    assert (contents(live), user.status(live)) == (before, status)
    assert (place / "a.txt").read_text() == "one\n"
    assert user.status(place) == [""]
    assert user.git(place, "branch", "--show-current") == BRANCH
    assert f"{place} " in user.git(live, "worktree", "list")
    assert user.git(live, "fsck", "--strict") == ""
    write(place, {"c.txt": "new\n"})
    commit = user.commit(place, "by an agent")
    assert user.git(live, "rev-parse", BRANCH) == commit
    assert user.git(live, "worktree", "prune", "--dry-run", "--expire=now") == ""


def test_making_it_again_changes_nothing_and_a_crash_half_way_is_gone_on_from(
    live: Path, user: User, place: Path
) -> None:
    make_worktree(str(live), str(place), BRANCH)
    write(place, {"a.txt": "work\n"})
    before = everything(place)
    make_worktree(str(live), str(place), BRANCH)
    assert everything(place) == before
    other = place.with_name("itn_2")
    user.git(live, "branch", "tower/itn_2")
    (live / ".git/worktrees/itn_2").mkdir()
    (place.parent / ".new-left").mkdir()
    make_worktree(str(live), str(other), "tower/itn_2")
    assert user.status(other) == [""]


def test_nothing_of_the_repository_is_run(live: Path, user: User, place: Path, tmp_path: Path) -> None:
    touch = f"touch {tmp_path}/run"
    for name in ("core.fsmonitor", "core.sshCommand", "filter.x.smudge", "filter.x.clean", "filter.x.process"):
        user.git(live, "config", name, touch, check=False)
    user.git(live, "config", "--unset", "core.fsmonitor")
    for hook in ("post-checkout", "reference-transaction", "post-index-change"):
        (live / ".git/hooks").mkdir(exist_ok=True)
        (live / f".git/hooks/{hook}").write_text(f"#!/bin/sh\n{touch}\n")
        (live / f".git/hooks/{hook}").chmod(0o755)
    (live / ".git/info/attributes").write_text("* filter=x\n")
    user.git(live, "config", "core.fsmonitor", touch)
    made = make_worktree(str(live), str(place), BRANCH)
    assert why_kept(str(live), str(place), BRANCH) is None
    remove_worktree(str(live), str(place), BRANCH)
    assert made.path == str(place)
    assert not (tmp_path / "run").exists()


def test_many_at_once(live: Path, user: User, tmp_path: Path) -> None:
    places = [tmp_path / f"trees/itn_{number}" for number in range(8)]
    threads = [Thread(target=make_worktree, args=(str(live), str(one), f"tower/{one.name}")) for one in places]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(user.status(one) == [""] for one in places)
    assert user.git(live, "worktree", "list").count("itn_") == 8 * 2


def test_from_a_linked_work_tree_and_with_the_branch_checked_out_elsewhere(
    live: Path, user: User, place: Path, tmp_path: Path
) -> None:
    linked = tmp_path / "linked"
    user.git(live, "worktree", "add", "-q", "-b", "other", str(linked))
    write(linked, {"x.txt": "x\n"})
    user.commit(linked, "in the linked one")
    make_worktree(str(linked), str(place), BRANCH)
    assert (place / "x.txt").exists()


def test_what_is_not_committed_or_nowhere_else_keeps_it(live: Path, user: User, place: Path) -> None:
    make_worktree(str(live), str(place), BRANCH)
    write(place, {"new.txt": "untracked\n"})
    assert why_kept(str(live), str(place), BRANCH) == "new.txt changed and not committed"
    user.commit(place, "work")
    assert why_kept(str(live), str(place), BRANCH) == f"1 commits of {BRANCH} that no other branch has"
    user.git(place, "checkout", "-q", "--detach")
    user.git(place, "commit", "-q", "--allow-empty", "-m", "detached")
    assert why_kept(str(live), str(place), BRANCH) == f"2 commits of {BRANCH} that no other branch has"
    user.git(live, "merge", "-q", "--no-ff", user.git(place, "rev-parse", "HEAD"))
    assert why_kept(str(live), str(place), BRANCH) is None


def test_it_goes_with_its_branch_once_that_is_merged(live: Path, user: User, place: Path) -> None:
    make_worktree(str(live), str(place), BRANCH)
    write(place, {"new.txt": "new\n"})
    user.commit(place, "work")
    user.git(live, "merge", "-q", BRANCH)
    user.git(live, "pack-refs", "--all")
    assert remove_worktree(str(live), str(place), BRANCH) is None
    assert not place.exists()
    assert user.git(live, "branch", "--list", BRANCH) == ""
    assert user.git(live, "worktree", "list").count("\n") == 0
    assert (live / "new.txt").exists()


def test_a_branch_with_commits_of_its_own_outlives_its_tree(live: Path, user: User, place: Path) -> None:
    make_worktree(str(live), str(place), BRANCH)
    write(place, {"new.txt": "new\n"})
    commit = user.commit(place, "work")
    remove_worktree(str(live), str(place), BRANCH)
    assert user.git(live, "rev-parse", BRANCH) == commit


def test_what_none_can_be_made_of(tmp_path: Path, live: Path, user: User, place: Path) -> None:
    with pytest.raises(InvalidError, match="not in a git repository"):
        make_worktree(str(tmp_path), str(place), BRANCH)
    unborn = tmp_path / "unborn"
    unborn.mkdir()
    user.git(unborn, "init", "-q")
    with pytest.raises(InvalidError, match="it has no commit yet"):
        make_worktree(str(unborn), str(place), BRANCH)
    user.git(live, "branch", BRANCH)
    user.git(live, "commit", "-q", "--allow-empty", "-m", "second")
    with pytest.raises(ConflictError, match="is there already"):
        make_worktree(str(live), str(place), BRANCH)
