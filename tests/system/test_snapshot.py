"""A snapshot is what the live tree was; taking one changes nothing in that tree, and executes nothing of it."""

from __future__ import annotations

import hashlib
import itertools
import os
import stat
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from trees import User, add_special, contents, everything, make_hostile, nasty, write

from tower.core.errors import BusyError, ConflictError, InvalidError, TowerError
from tower.core.launch import Workspace
from tower.system import capture, git, layout
from tower.system.gitdir import GitDir
from tower.system.workspace import remove_workspace, take_snapshot

IGNORED = {b".env", b"build/link", b"build/out.o", b"nested/repo/x.tmp", b"noise.log"}


@pytest.fixture
def user(tmp_path: Path) -> User:
    return User(tmp_path / "home")


@pytest.fixture
def snap(tmp_path: Path) -> Callable[..., Workspace]:
    """Take snapshots into folders s1, s2, ..."""
    numbers = iter(range(1, 1000))
    return lambda live, **more: take_snapshot(live=str(live), folder=str(tmp_path / f"s{next(numbers)}"), **more)


Snap = Callable[..., Workspace]


def kept(live: Path) -> dict[bytes, tuple[str, bytes]]:
    return {name: held for name, held in contents(live).items() if name not in IGNORED}


def test_everything_is_there_and_nothing_changed(tmp_path: Path, user: User, snap: Snap) -> None:
    live = nasty(user, tmp_path / "live")
    status = user.status(live)
    before = everything(live)
    taken = snap(live)
    there = Path(taken.path)
    assert everything(live) == before
    assert contents(there) == kept(live)
    assert user.status(there) == status
    assert user.status(there / "sub/module") == user.status(live / "sub/module")
    assert user.status(there / "nested/repo") == user.status(live / "nested/repo")
    assert user.git(there, "log", "--format=%H") == user.git(live, "log", "--format=%H")
    assert user.git(there / "sub/module", "log", "--format=%H") == user.git(live / "sub/module", "log", "--format=%H")
    assert user.git(there, "blame", "secret.txt") == user.git(live, "blame", "secret.txt")
    assert user.git(there, "diff", "HEAD", "--", "both.txt") == user.git(live, "diff", "HEAD", "--", "both.txt")
    assert user.git(there, "diff", "--cached", "--stat") == user.git(live, "diff", "--cached", "--stat")
    assert (taken.kind, taken.root, taken.base) == ("snapshot", str(live), user.git(live, "rev-parse", "HEAD"))
    assert taken.tree is not None
    assert user.git(there, "cat-file", "-t", taken.tree) == "tree"
    assert user.git(there, "show", f"{taken.tree}:both.txt") == "2"


def test_pipes_and_sockets_are_left_out_and_named(tmp_path: Path, user: User, snap: Snap) -> None:
    live = user.repository(tmp_path / "live", {"to-pipe.txt": "x\n"})
    add_special(live)
    taken = snap(live)
    assert not any(stat.S_ISFIFO(entry.lstat().st_mode) for entry in Path(taken.path).iterdir())
    assert taken.notes == (
        "left out of the snapshot, sockets: door",
        "left out of the snapshot, pipes: pipe, to-pipe.txt",
    )


@pytest.mark.parametrize("name", [".gitignore", ".gitattributes", "new/.gitignore"])
def test_a_rules_file_that_is_a_pipe_is_refused_by_name(
    tmp_path: Path, user: User, snap: Snap, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    live = user.repository(tmp_path / "live")
    write(live, {"new/x.txt": "x\n"})
    os.mkfifo(live / name)
    monkeypatch.setattr(git, "QUICK", 0.5)
    with pytest.raises(InvalidError, match=f"{name} is among the pipes"):
        snap(live)
    assert not (tmp_path / "s1").exists()


def test_nothing_that_a_configuration_names_is_executed(tmp_path: Path, user: User, snap: Snap) -> None:
    live = nasty(user, tmp_path / "live")
    add_special(live)
    expected = kept(live)
    marker = make_hostile(live)
    user.git(live, "ls-files", "--others")
    assert marker.exists(), "the trap does not work"
    marker.unlink()
    before = everything(live)
    taken = snap(live)
    assert contents(Path(taken.path)) == expected
    user.git(Path(taken.path), "status")
    assert everything(live) == before
    assert not marker.exists()
    snap(live, head_only=True)
    assert not marker.exists()


def test_what_a_git_hook_inherits_is_not_obeyed(
    tmp_path: Path, user: User, snap: Snap, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoy = user.repository(tmp_path / "decoy", {"decoy.txt": "d\n"})
    live = user.repository(tmp_path / "live")
    for name, value in {
        "GIT_DIR": decoy / ".git",
        "GIT_WORK_TREE": decoy,
        "GIT_INDEX_FILE": decoy / ".git/index",
        "GIT_OBJECT_DIRECTORY": decoy / ".git/objects",
        "GIT_CONFIG_PARAMETERS": "'core.fsmonitor=false'",
    }.items():
        monkeypatch.setenv(name, str(value))
    before = everything(decoy)
    assert contents(Path(snap(live).path)) == contents(live)
    assert everything(decoy) == before


def test_an_edit_of_the_same_size_in_the_same_moment_is_seen(tmp_path: Path, user: User, snap: Snap) -> None:
    live = user.repository(tmp_path / "live", {"racy.txt": "AAAA00\n"})
    seen = []
    for number in range(20):
        write(live, {"racy.txt": f"AAAA{number:02}\n"})
        user.git(live, "add", "racy.txt")
        with (live / "racy.txt").open("r+") as file:
            file.write("B")
        seen.append((Path(snap(live).path) / "racy.txt").read_text() == f"BAAA{number:02}\n")
    assert seen == [True] * 20


def test_marks_that_tell_git_not_to_look_are_not_believed(tmp_path: Path, user: User, snap: Snap) -> None:
    live = user.repository(tmp_path / "live", {"skipped.txt": "0\n", "assumed.txt": "0\n", "watched.txt": "0\n"})
    liar = tmp_path / "liar.sh"
    liar.write_text("#!/bin/sh\nprintf 'token\\0'\n")
    liar.chmod(0o755)
    user.git(live, "config", "core.fsmonitor", str(liar))
    user.git(live, "update-index", "--fsmonitor")
    user.git(live, "status")
    user.git(live, "update-index", "--skip-worktree", "skipped.txt")
    user.git(live, "update-index", "--assume-unchanged", "assumed.txt")
    write(live, {"skipped.txt": "11\n", "assumed.txt": "11\n", "watched.txt": "11\n"})
    assert user.status(live) == [""]
    assert contents(Path(snap(live).path)) == contents(live)


@pytest.mark.parametrize("form", ["plain", "split", "untracked-cache", "version-4", "sparse-index", "cone", "patterns"])
def test_every_form_of_index(tmp_path: Path, user: User, snap: Snap, form: str) -> None:
    files = {f"{folder}/{name}.txt": f"{folder}\n" for folder in ("in", "out", "out2") for name in ("a", "b")}
    live = user.repository(tmp_path / "live", files)
    for args in {
        "plain": [],
        "split": [["update-index", "--split-index"]],
        "untracked-cache": [["update-index", "--force-untracked-cache"], ["status"]],
        "version-4": [["update-index", "--index-version", "4"]],
        "sparse-index": [["sparse-checkout", "set", "--cone", "--sparse-index", "in"]],
        "cone": [["sparse-checkout", "set", "--cone", "in"]],
        "patterns": [["sparse-checkout", "set", "--no-cone", "/in/a.txt", "/out/"]],
    }[form]:
        user.git(live, *args)
    write(live, {"in/a.txt": "edited\n", "in/new.txt": "new\n"})
    user.git(live, "add", "in/a.txt")
    before = everything(live)
    taken = snap(live)
    assert contents(Path(taken.path)) == contents(live)
    assert everything(live) == before
    assert user.status(Path(taken.path)) == user.status(live)
    assert user.git(Path(taken.path), "fsck", "--no-dangling") == ""


def test_files_of_a_sparse_check_out_that_are_there_all_the_same(tmp_path: Path, user: User, snap: Snap) -> None:
    live = user.repository(tmp_path / "live", {"in/a.txt": "a\n", "out/b.txt": "b\n", "out/c.txt": "c\n"})
    user.git(live, "sparse-checkout", "set", "--cone", "--sparse-index", "in")
    write(live, {"out/b.txt": "present and edited\n"})
    assert contents(Path(snap(live).path)) == contents(live)


@pytest.mark.parametrize("format_", ["sha1", "sha256"])
def test_a_repository_without_a_commit(tmp_path: Path, user: User, snap: Snap, format_: str) -> None:
    live = tmp_path / "live"
    live.mkdir()
    user.git(live, "init", "-q", f"--object-format={format_}")
    write(live, {"a.txt": "a\n", "b.txt": "b\n"})
    user.git(live, "add", "a.txt")
    taken = snap(live)
    assert contents(Path(taken.path)) == contents(live)
    assert user.status(Path(taken.path)) == user.status(live) == ["", "?? b.txt", "A  a.txt"]
    assert taken.base is None
    assert contents(Path(snap(live, head_only=True).path)) == {}


def test_a_repository_of_the_other_object_format(tmp_path: Path, user: User, snap: Snap) -> None:
    live = user.repository(tmp_path / "live", None, "--object-format=sha256")
    write(live, {"a.txt": "changed\n"})
    (live / "sub/b.txt").unlink()
    taken = snap(live)
    assert contents(Path(taken.path)) == contents(live)
    assert user.status(Path(taken.path)) == user.status(live)
    assert taken.base is not None
    assert len(taken.base) == 64


def test_a_detached_head_and_the_branches_of_others(tmp_path: Path, user: User, snap: Snap) -> None:
    live = user.repository(tmp_path / "live")
    user.git(live, "branch", "packed")
    user.git(live, "tag", "-m", "annotated", "v1")
    user.git(live, "pack-refs", "--all")
    user.git(live, "branch", "feature/loose")
    write(live, {"a.txt": "second\n"})
    user.commit(live, "second")
    user.git(live, "checkout", "-q", "--detach", "HEAD~1")
    there = Path(snap(live).path)
    for what in (["for-each-ref"], ["rev-parse", "HEAD"], ["diff", "main...HEAD"], ["status", "-s"]):
        assert user.git(there, *what) == user.git(live, *what)


def test_moving_branches_there_moves_none_of_the_real_ones(tmp_path: Path, user: User, snap: Snap) -> None:
    live = user.repository(tmp_path / "live")
    write(live, {"a.txt": "uncommitted\n"})
    refs = user.git(live, "for-each-ref"), user.git(live, "rev-parse", "HEAD")
    there = Path(snap(live).path)
    assert user.git(there, "remote") == ""
    user.commit(there, "in the snapshot")
    user.git(there, "branch", "-m", "main", "renamed")
    user.git(there, "update-ref", "refs/heads/x", "HEAD")
    assert (user.git(live, "for-each-ref"), user.git(live, "rev-parse", "HEAD")) == refs
    assert user.git(live, "fsck") == ""
    assert user.git(there, "log", "--format=%s", "-1") == "in the snapshot"


def test_a_shallow_clone(tmp_path: Path, user: User, snap: Snap) -> None:
    origin = user.repository(tmp_path / "origin")
    user.commit(origin, "second")
    user.git(tmp_path, "clone", "-q", "--depth=1", f"file://{origin}", "live")
    there = Path(snap(tmp_path / "live").path)
    assert user.git(there, "log", "--format=%s") == "second"
    assert user.status(there) == [""]


def test_a_clone_that_borrows_its_objects(tmp_path: Path, user: User, snap: Snap) -> None:
    origin = user.repository(tmp_path / "origin")
    user.git(tmp_path, "clone", "-q", "--shared", "origin", "middle")
    user.git(tmp_path, "clone", "-q", "--shared", "middle", "live")
    there = Path(snap(tmp_path / "live").path)
    assert contents(there) == contents(origin)
    assert user.git(there, "log", "--format=%s") == "first"


def test_a_path_of_any_letters(tmp_path: Path, user: User) -> None:
    odd = os.fsdecode(b'odd "quoted"\\\n:#\xe9')
    live = user.repository(tmp_path / odd / "live")
    there = Path(take_snapshot(live=str(live), folder=str(tmp_path / odd / "snap")).path)
    assert contents(there) == contents(live)
    assert user.git(there, "log", "--format=%s") == "first"


def test_a_linked_work_tree_whose_branch_is_in_use_elsewhere(tmp_path: Path, user: User, snap: Snap) -> None:
    main = user.repository(tmp_path / "main")
    user.git(main, "worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    (main / ".git/info/exclude").write_text("*.private\n")
    write(tmp_path / "side", {"a.txt": "in the side tree\n", "x.private": "ignored\n"})
    user.git(tmp_path / "side", "add", "a.txt")
    before = everything(main), user.git(main, "worktree", "list"), user.git(main, "branch")
    there = Path(snap(tmp_path / "side").path)
    assert user.status(there) == ["", "M  a.txt"]
    assert user.git(there, "branch", "--show-current") == "side"
    assert (everything(main), user.git(main, "worktree", "list"), user.git(main, "branch")) == before


def test_a_folder_of_a_repository_is_found_at_the_same_place(tmp_path: Path, user: User, snap: Snap) -> None:
    live = user.repository(tmp_path / "live", {"top.txt": "t\n", "sub/deep/x.txt": "x\n"})
    (live / "sub/empty").mkdir()
    (tmp_path / "by-link").symlink_to(live / "sub")
    taken = snap(tmp_path / "by-link")
    assert taken.path.endswith("/tree/sub")
    assert (Path(taken.path) / "deep/x.txt").read_text() == "x\n"
    assert (Path(taken.path) / "../top.txt").read_text() == "t\n"
    assert taken.root == str(live / "sub")
    assert list(Path(snap(live / "sub/empty").path).iterdir()) == []


def test_a_folder_that_git_ignores_is_refused(tmp_path: Path, user: User, snap: Snap) -> None:
    live = user.repository(tmp_path / "live", {".gitignore": "/mine/\n"})
    write(live, {"mine/x.txt": "x\n"})
    with pytest.raises(InvalidError, match="nothing in it belongs to"):
        snap(live / "mine")
    with pytest.raises(InvalidError, match="nothing in it belongs to"):
        snap(live / "mine", head_only=True)
    assert not list(tmp_path.glob("s[0-9]"))


def test_head_alone(tmp_path: Path, user: User, snap: Snap) -> None:
    live = nasty(user, tmp_path / "live")
    before = everything(live)
    taken = snap(live, head_only=True)
    there = Path(taken.path)
    assert everything(live) == before
    assert user.status(there) == [""]
    assert (there / "both.txt").read_text() == "0\n"
    assert (there / "dos.bat").read_bytes() == b"echo 1\r\necho 2\r\n"
    assert (there / "wide.u16").read_bytes() == "wïde\n".encode("utf-16-le")
    assert (there / "film.big").read_text().startswith("version https://example.org/pointer")
    assert (there / "sub/module/lib.txt").read_text() == "lib\n"
    assert taken.tree == user.git(live, "rev-parse", "HEAD^{tree}")
    assert len(taken.notes) == 2
    assert "sub/unfilled, a submodule, is empty here: it is not checked out" in taken.notes


def test_ignored_files_that_are_asked_for(tmp_path: Path, user: User, snap: Snap) -> None:
    live = user.repository(tmp_path / "live", {".gitignore": ".env\n/vendor/\n*.key\nstate/\n"})
    outside = tmp_path / "outside.txt"
    outside.write_text("not yours\n")
    write(
        live,
        {".env": "A=1\n", "deep/.env": "B=2\n", "vendor/lib/x.js": "x\n", "other.key": "k\n", "state/.env": "no\n"},
    )
    (live / "vendor/bin").symlink_to("lib/x.js")
    (live / "vendor/out").symlink_to("../../outside.txt")
    (live / "vendor/abs").symlink_to(outside)
    include = (".env", "/vendor/", "absent.txt")
    taken = snap(live, include=include, exclude=(str(live / "state"),))
    held = contents(Path(taken.path))
    assert held.keys() == {b".gitignore", b".env", b"deep/.env", b"vendor/lib/x.js", b"vendor/bin"}
    assert held[b"vendor/bin"] == ("link", b"lib/x.js")
    assert taken.notes == (
        "left out of the snapshot, included links that lead out of the tree: vendor/abs, vendor/out",
        "nothing in the tree matches absent.txt of snapshot_include",
    )
    assert user.status(Path(taken.path)) == [""]


@pytest.mark.parametrize("pattern", ["", " ", "!x", "../x", "a/../../b", "a\nb"])
def test_patterns_that_name_nothing_inside_are_refused(tmp_path: Path, user: User, snap: Snap, pattern: str) -> None:
    live = user.repository(tmp_path / "live")
    with pytest.raises(InvalidError, match="cannot include"):
        snap(live, include=(pattern,))


def test_the_tower_s_own_folders_are_left_out(tmp_path: Path, user: User) -> None:
    live = user.repository(tmp_path / "live")
    state = live / "st[a]te *"
    write(live, {"st[a]te */tower.db": "db\n", "sta te/x.txt": "mine\n"})
    (state / "snapshots").mkdir()
    for number in ("1", "2"):
        folder = str(state / "snapshots" / number)
        there = take_snapshot(live=str(live), folder=folder, exclude=(str(state),)).path
        assert contents(Path(there)).keys() == {b"a.txt", b"sub/b.txt", b"sta te/x.txt"}
    write(state, {".gitignore": "*\n"})
    user.commit(live, "everything")
    assert user.git(live, "ls-files", "-z").split("\0") == ["a.txt", "sta te/x.txt", "sub/b.txt", ""]
    assert user.status(live) == [""]
    live_in_state = user.repository(state / "snapshots" / "live")
    taken = take_snapshot(live=str(live_in_state), folder=str(tmp_path / "s"), exclude=(str(state),))
    assert contents(Path(taken.path)) == contents(live_in_state)


def test_a_folder_of_snapshots_inside_the_tree_is_not_in_them(tmp_path: Path, user: User) -> None:
    live = user.repository(tmp_path / "live")
    taken = take_snapshot(live=str(live), folder=str(live / "snap"))
    assert contents(Path(taken.path)).keys() == {b"a.txt", b"sub/b.txt"}


def test_it_is_nobody_else_s_business(tmp_path: Path, user: User, snap: Snap) -> None:
    live = user.repository(tmp_path / "live")
    write(live, {"secret.txt": "untracked\n"})
    before = os.umask(0)
    try:
        snap(live)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "s1").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "s1/tree/secret.txt").stat().st_mode) == 0o644
    assert {entry.name for entry in (tmp_path / "s1").iterdir()} == {"tree", "objects", "laid.index"}
    assert (
        user.git(live, "count-objects")
        == user.git(live, "count-objects", "-v").splitlines()[0].removeprefix("count: ")
        + " objects, "
        + user.git(live, "count-objects").split(", ")[1]
    )


def test_what_git_cannot_keep_is_named(tmp_path: Path, user: User, snap: Snap) -> None:
    live = user.repository(tmp_path / "live")
    write(live, {".GIT/x": "x\n", "sub/.Git": "y\n"})
    taken = snap(live)
    assert contents(Path(taken.path)).keys() == {b"a.txt", b"sub/b.txt"}
    assert taken.notes == ("left out of the snapshot, files with names that git does not keep: .GIT/x, sub/.Git",)


def test_a_nested_repository_that_cannot_be_read_has_its_files(tmp_path: Path, user: User, snap: Snap) -> None:
    live = user.repository(tmp_path / "live")
    broken = user.repository(live / "broken", {"x.txt": "x\n"})
    (broken / ".git/reftable").mkdir()
    taken = snap(live)
    assert contents(Path(taken.path)) == contents(live)
    assert "broken has its files here, but not its history" in taken.notes[0]


def test_a_commit_that_is_lost_is_refused(tmp_path: Path, user: User, snap: Snap) -> None:
    live = user.repository(tmp_path / "live")
    (live / ".git/refs/heads/main").write_text("1" * 40 + "\n")
    with pytest.raises(InvalidError, match=f"its commit {'1' * 40} cannot be read"):
        snap(live)


def test_a_place_that_is_taken(tmp_path: Path, user: User) -> None:
    live = user.repository(tmp_path / "live")
    (tmp_path / "there").mkdir()
    (tmp_path / "there/work.txt").write_text("kept")
    with pytest.raises(ConflictError, match="it exists"):
        take_snapshot(live=str(live), folder=str(tmp_path / "there"))
    assert (tmp_path / "there/work.txt").read_text() == "kept"
    with pytest.raises(TowerError, match=r"cannot make a snapshot in .*no such file or directory"):
        take_snapshot(live=str(live), folder=str(tmp_path / "no/where"))


def meddle(monkeypatch: pytest.MonkeyPatch, verb: str, number: int, act: Callable[[], bytes | None]) -> None:
    """Just before the n-th git command of this name, do something; what that returns stands for git's answer."""
    run, numbers = GitDir._run, itertools.count(1)

    def meddling(self: GitDir, args: tuple[str, ...], *more: Any) -> bytes:
        answer = act() if verb in args and next(numbers) == number else None
        return run(self, args, *more) if answer is None else answer

    monkeypatch.setattr(GitDir, "_run", meddling)


def test_files_that_change_and_go_while_they_are_read(
    tmp_path: Path, user: User, snap: Snap, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = user.repository(tmp_path / "live")
    write(live, {"going.txt": "1\n", "changing.txt": "1\n", "piped.txt": "1\n", "a.txt": "edited\n"})

    def act() -> None:
        (live / "going.txt").unlink()
        (live / "piped.txt").unlink()
        os.mkfifo(live / "piped.txt")
        write(live, {"changing.txt": "changed meanwhile\n", "new.txt": "n\n"})

    meddle(monkeypatch, "--add", 1, act)
    assert contents(Path(snap(live).path)) == contents(live)


def test_a_change_that_git_does_not_notice_is_noticed(
    tmp_path: Path, user: User, snap: Snap, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = user.repository(tmp_path / "live")
    write(live, {"a.txt": "old\n"})

    def act() -> bytes:
        write(live, {"a.txt": "new\n"})
        return b""

    meddle(monkeypatch, "diff-files", 2, act)
    assert (Path(snap(live).path) / "a.txt").read_text() == "new\n"


def test_a_converted_file_that_is_ignored_as_well_is_not_lost_by_a_failure(
    tmp_path: Path, user: User, snap: Snap, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = user.repository(tmp_path / "live", {".gitattributes": "*.rot filter=upper\n", "x.rot": "lower\n"})
    write(live, {".gitignore": "*.rot\n", "piped.txt": "1\n"})

    def act() -> None:
        (live / "piped.txt").unlink()
        os.mkfifo(live / "piped.txt")

    meddle(monkeypatch, "--add", 1, act)
    assert contents(Path(snap(live).path)) == contents(live)


def test_an_ignored_file_that_was_gone_for_a_moment(
    tmp_path: Path, user: User, snap: Snap, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = user.repository(tmp_path / "live", {".gitignore": "", "x.log": "recorded\n"})
    write(live, {".gitignore": "*.log\n"})
    meddle(monkeypatch, "diff-files", 1, (live / "x.log").unlink)
    meddle(monkeypatch, "diff-files", 2, lambda: write(live, {"x.log": "back\n"}))
    assert (Path(snap(live).path) / "x.log").read_text() == "back\n"


@pytest.mark.parametrize("what", ["HEAD", "index"])
def test_a_commit_made_meanwhile_is_there_or_not_but_not_half(
    tmp_path: Path, user: User, snap: Snap, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    live = user.repository(tmp_path / "live")
    write(live, {"a.txt": "second\n"})
    verbs = ["update-ref", "HEAD", user.git(live, "commit-tree", "-m", "x", "HEAD^{tree}")]

    def act() -> None:
        user.git(live, *(verbs if what == "HEAD" else ["add", "a.txt"]))

    meddle(monkeypatch, "diff-files", 2, act)
    taken = snap(live)
    assert user.status(Path(taken.path)) == user.status(live)
    assert taken.base == user.git(live, "rev-parse", "HEAD")


def test_git_failing_for_good_is_said_with_its_words(
    tmp_path: Path, user: User, snap: Snap, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = user.repository(tmp_path / "live")
    index = (live / ".git/index").read_bytes()
    (live / ".git/index").write_bytes(b"DIRC" + bytes(60))
    with pytest.raises(TowerError, match=r"cannot run git ls-files in .*: fatal: ") as caught:
        snap(live)
    assert caught.value.code == "git-failed"
    monkeypatch.setattr(capture, "CALM_WITHIN", 0.1)
    (live / ".git/index").write_bytes(index)
    write(live, {"a.txt": "edited\n"})

    def fail(self: GitDir, *_: str, **__: Any) -> bytes:
        raise TowerError("git-failed", "cannot run git update-index: unable to read a.txt")

    monkeypatch.setattr(GitDir, "write", fail)
    with pytest.raises(BusyError, match="unable to read"):
        snap(live)


def test_a_tree_that_never_holds_still(tmp_path: Path, user: User, snap: Snap, monkeypatch: pytest.MonkeyPatch) -> None:
    live = user.repository(tmp_path / "live")
    run = GitDir._run

    def scribbling(self: GitDir, args: tuple[str, ...], *more: Any) -> bytes:
        write(live, {"restless.txt": os.urandom(8).hex()})
        return run(self, args, *more)

    with monkeypatch.context() as restless:
        restless.setattr(capture, "CALM_WITHIN", 0.3)
        restless.setattr(GitDir, "_run", scribbling)
        with pytest.raises(BusyError, match="did not hold still") as caught:
            snap(live)
    assert caught.value.code == "tree-moving"
    assert "restless.txt" in caught.value.sentence
    assert "HEAD" not in caught.value.sentence
    assert not (tmp_path / "s1").exists()
    assert contents(Path(snap(live).path)) == contents(live)


def test_twelve_at_once_beside_commits_each_saw_one_moment(tmp_path: Path, user: User, snap: Snap) -> None:
    live = user.repository(tmp_path / "live", {"a.txt": "0\n", "b.txt": "0\n"})
    user.git(live, "commit", "-q", "--amend", "-m", "0")
    stop = threading.Event()
    failed: list[BaseException] = []

    def work() -> None:
        number = 0
        try:
            while not stop.wait(0.03):
                number += 1
                write(live, {"a.txt": f"{number}\n"})
                stop.wait(0.03)
                write(live, {"b.txt": f"{number}\n"})
                stop.wait(0.03)
                user.git(live, "commit", "-qam", str(number))
        except BaseException as error:
            failed.append(error)

    writer = threading.Thread(target=work)
    writer.start()
    try:
        with ThreadPoolExecutor(12) as pool:
            places = [Path(taken.path) for taken in pool.map(lambda _: snap(live), range(12))]
    finally:
        stop.set()
        writer.join()
    assert not failed
    for place in places:
        a, b = int((place / "a.txt").read_text()), int((place / "b.txt").read_text())
        head = int(user.git(place, "log", "-1", "--format=%s"))
        assert (a - head, b - head) in {(0, 0), (1, 0), (1, 1)}
        dirty = [f" M {name}" for name, value in (("a.txt", a), ("b.txt", b)) if value != head]
        assert user.status(place) == ["", *dirty]
    assert user.git(live, "worktree", "list").count("\n") == 0
    assert user.git(live, "branch") == "* main"
    assert user.git(live, "fsck") == ""


def test_many_with_a_filled_submodule_leave_nothing(tmp_path: Path, user: User) -> None:
    live = nasty(user, tmp_path / "live")
    before = everything(live)
    (tmp_path / "snapshots").mkdir()
    for number in range(5):
        folder = str(tmp_path / "snapshots" / str(number))
        take_snapshot(live=str(live), folder=folder)
        assert remove_workspace(folder) is None
    assert list((tmp_path / "snapshots").iterdir()) == []
    assert everything(live) == before


def test_a_run_whose_snapshot_vanished_does_not_end_up_in_the_live_tree(tmp_path: Path, user: User, snap: Snap) -> None:
    live = user.repository(tmp_path / "live")
    taken = snap(live)
    before = everything(live)
    assert remove_workspace(str(tmp_path / "s1")) is None
    with pytest.raises(FileNotFoundError):
        subprocess.run([sys.executable, "-c", "open('written', 'w')"], cwd=taken.path, check=True)
    assert everything(live) == before


UNPRIVILEGED = """
import sys
from tower.system.workspace import take_snapshot
taken = take_snapshot(live=sys.argv[1], folder=sys.argv[2])
print(*taken.notes, sep="\\n")
"""


def test_what_the_tower_may_not_read_is_left_out_and_named(tmp_path: Path, user: User) -> None:
    live = user.repository(tmp_path / "live")
    write(live, {"closed.txt": "c\n", "open.txt": "o\n", "shut/x.txt": "x\n"})
    (live / "closed.txt").chmod(0)
    (live / "a.txt").chmod(0)
    command = [sys.executable, "-c", UNPRIVILEGED, str(live), str(tmp_path / "s")]
    if os.geteuid() == 0:
        command = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", *command]
    root = Path(__file__).parents[2]
    done = subprocess.run(
        command, cwd=root, env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    assert done.stdout.rstrip() == "left out of the snapshot, files that the tower may not read: a.txt, closed.txt"
    assert contents(tmp_path / "s/tree").keys() == {b"open.txt", b"shut/x.txt", b"sub/b.txt"}


def test_a_repository_that_belongs_to_somebody_else(tmp_path: Path, user: User, snap: Snap) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    live = user.repository(tmp_path / "live")
    write(live, {"a.txt": "edited\n"})
    for path in (live, *live.rglob("*")):
        os.chown(path, 65534, 65534, follow_symlinks=False)
    assert (
        "dubious ownership"
        in subprocess.run(["git", "status"], cwd=live, env=user.env, capture_output=True, text=True, check=False).stderr
    )
    there = Path(snap(live).path)
    assert user.status(there) == ["", " M a.txt"]


def forged_index(names: dict[str, str]) -> bytes:
    """An index as no git writes it: path -> object id, all of them ordinary files."""
    body = b"DIRC" + struct.pack(">LL", 2, len(names))
    for name, object_id in sorted(names.items()):
        entry = struct.pack(">10L", 0, 0, 0, 0, 0, 0, 0o100644, 0, 0, 0) + bytes.fromhex(object_id)
        entry += struct.pack(">H", len(name)) + name.encode()
        body += entry + b"\0" * (8 - len(entry) % 8)
    return body + hashlib.sha1(body, usedforsecurity=False).digest()


@pytest.mark.parametrize(
    "name", ["../../escaped.txt", "/escaped.txt", "sub/../../../escaped.txt", ".git/hooks/x", "a//b"]
)
def test_an_index_forged_to_write_elsewhere_is_refused(tmp_path: Path, user: User, snap: Snap, name: str) -> None:
    live = user.repository(tmp_path / "live")
    blob = user.git(live, "rev-parse", "HEAD:a.txt")
    (live / ".git/index").write_bytes(forged_index({"a.txt": blob, name: blob}))
    assert "a.txt" in user.git(live, "ls-files"), "git does not read what was forged"
    with pytest.raises(InvalidError, match="which no git does"):
        snap(live)
    assert not list(tmp_path.rglob("escaped.txt"))
    assert not (tmp_path / "s1").exists()


def test_repositories_within_repositories_within_repositories(tmp_path: Path, user: User, snap: Snap) -> None:
    live = user.repository(tmp_path / "live", {"a.txt": "top\n"})
    deeper = live
    for _ in range(12):
        deeper /= "n"
        user.repository(deeper, {"a.txt": "deep\n"})
    taken = snap(live)
    assert contents(Path(taken.path)) == contents(live)


def test_a_submodule_replaced_by_a_link_is_not_followed(
    tmp_path: Path, user: User, snap: Snap, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = user.repository(tmp_path / "live")
    user.repository(live / "way/nested", {"n.txt": "n\n"})
    outside = tmp_path / "outside"
    outside.mkdir()
    check_out = layout._check_out

    def swap(own: GitDir, tree: Path) -> GitDir:
        """Whoever can write there while a snapshot is laid out could do this."""
        done = check_out(own, tree)
        (tree / "way").symlink_to(outside)
        return done

    monkeypatch.setattr(layout, "_check_out", swap)
    with pytest.raises(BusyError, match="replaced by a link"):
        snap(live)
    assert list(outside.iterdir()) == []
