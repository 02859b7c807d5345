"""What is not committed is kept under a ref, and brought back by one command."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from trees import User, contents, everything, write

from tower.core.errors import InvalidError
from tower.system.rescue import rescue

RESTORE = ("restore", "--source=refs/tower/rescue/run_1", "--worktree", ":/")
"""The documented command."""


@pytest.fixture
def user(tmp_path: Path) -> User:
    return User(tmp_path / "home")


@pytest.fixture
def live(tmp_path: Path, user: User) -> Path:
    return user.repository(tmp_path / "live")


@pytest.fixture
def store(tmp_path: Path) -> str:
    return str(tmp_path / "trees")


def test_what_was_not_committed_comes_back_with_one_command(live: Path, user: User, store: str) -> None:
    write(live, {"a.txt": "uncommitted\n" * 200, "new/c.txt": "untracked\n", "staged.txt": "staged\n"})
    user.git(live, "add", "staged.txt")
    (live / "sub/b.txt").unlink()
    wanted, status = contents(live), user.status(live)
    assert rescue(str(live), "run_1", store=store) == (str(live),)
    assert (contents(live), user.status(live)) == (wanted, status)
    user.git(live, "reset", "-q", "--hard")
    user.git(live, "clean", "-qfd")
    user.git(live, "gc", "-q", "--prune=now")
    user.git(live, *RESTORE)
    assert contents(live) == wanted
    assert user.git(live, "fsck", "--strict") == ""
    assert user.git(live, "rev-parse", "refs/tower/rescue/run_1^") == user.git(live, "rev-parse", "HEAD")


def test_a_clean_tree_is_not_written_to(live: Path, store: str) -> None:
    before = everything(live)
    assert rescue(str(live), "run_1", store=store) == ()
    assert everything(live) == before


def test_only_objects_and_the_ref_are_added(live: Path, user: User, store: str) -> None:
    write(live, {"a.txt": "two\n"})
    before = everything(live)
    rescue(str(live), "run_1", store=store)
    added = {os.path.relpath(name, os.fsencode(live)) for name in everything(live).keys() - before.keys()}
    assert all(name.startswith((b".git/objects/", b".git/refs/tower")) for name in added)
    assert user.git(live, "branch", "--list", "--all") == "* main"
    assert not list((live / ".git/refs/tower/rescue").glob("*.lock"))


def test_a_second_rescue_keeps_the_first_within_reach(live: Path, user: User, store: str) -> None:
    write(live, {"a.txt": "first\n"})
    rescue(str(live), "run_1", store=store)
    first = user.git(live, "rev-parse", "refs/tower/rescue/run_1")
    rescue(str(live), "run_1", store=store)
    assert user.git(live, "rev-parse", "refs/tower/rescue/run_1") == first
    write(live, {"a.txt": "second\n"})
    rescue(str(live), "run_1", store=store)
    assert user.git(live, "rev-parse", "refs/tower/rescue/run_1^2") == first


def test_each_nested_repository_keeps_its_own(live: Path, user: User, store: str) -> None:
    inner = user.repository(live / "inner", {"x.txt": "one\n"})
    write(inner, {"x.txt": "two\n"})
    assert sorted(rescue(str(live), "run_1", store=store)) == [str(inner)]
    assert user.git(inner, "show", "refs/tower/rescue/run_1:x.txt") == "two"


def test_without_a_commit_there_is_no_parent(tmp_path: Path, user: User, store: str) -> None:
    live = tmp_path / "unborn"
    live.mkdir()
    user.git(live, "init", "-q")
    write(live, {"a.txt": "one\n"})
    rescue(str(live), "run_1", store=store)
    assert user.git(live, "log", "--format=%P|%s", "refs/tower/rescue/run_1") == (
        "|What was not committed when run_1 was cut off"
    )


def test_in_the_middle_of_a_merge_and_in_a_linked_work_tree(live: Path, user: User, store: str, tmp_path: Path) -> None:
    linked = tmp_path / "linked"
    user.git(live, "worktree", "add", "-q", "-b", "other", str(linked))
    write(live, {"a.txt": "ours\n"})
    user.commit(live, "ours")
    write(linked, {"a.txt": "theirs\n"})
    user.commit(linked, "theirs")
    user.git(linked, "merge", "main", check=False)
    assert rescue(str(linked), "run_1", store=store) == (str(linked),)
    assert "<<<<<<<" in user.git(live, "show", "refs/tower/rescue/run_1:a.txt")


def test_a_filter_is_no_change_and_is_not_run(live: Path, user: User, store: str) -> None:
    write(live, {".gitattributes": "*.big filter=big\n", "x.big": "content\n"})
    user.git(live, "config", "filter.big.clean", "printf pointer")
    user.commit(live, "big")
    user.git(live, "config", "filter.big.clean", f"touch {live}/run; cat")
    assert rescue(str(live), "run_1", store=store) == ()
    assert not (live / "run").exists()


def test_hostile_configuration_and_links_are_not_followed(live: Path, user: User, store: str, tmp_path: Path) -> None:
    touch = f"touch {tmp_path}/run"
    for name in ("core.fsmonitor", "core.sshCommand", "core.editor", "gpg.program", "core.pager"):
        user.git(live, "config", name, touch)
    user.git(live, "config", "commit.gpgSign", "true")
    hook = live / ".git/hooks/reference-transaction"
    hook.write_text(f"#!/bin/sh\n{touch}\n")
    hook.chmod(0o755)
    write(live, {"a.txt": "two\n"})
    rescue(str(live), "run_1", store=store)
    assert not (tmp_path / "run").exists()


def test_no_repository(tmp_path: Path, store: str) -> None:
    with pytest.raises(InvalidError):
        rescue(str(tmp_path), "run_1", store=store)
