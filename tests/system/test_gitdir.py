"""A git directory of the tower's own: git accepts it, sees the live tree through it, and leaves that alone."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from trees import User, everything, write

from tower.system.gitdir import AS_IT_STANDS, GitDir, copy_index, copy_info, index_stamp, looking_at, make_git_dir
from tower.system.repository import Head, Repository, find_repository, read_head


@pytest.fixture
def user(tmp_path: Path) -> User:
    return User(tmp_path / "home")


@pytest.fixture
def live(tmp_path: Path, user: User) -> Path:
    return user.repository(tmp_path / "live")


def look(tmp_path: Path, repository: Repository) -> GitDir:
    objects = tmp_path / "objects"
    (objects / "info").mkdir(parents=True)
    head = read_head(repository)
    return looking_at(repository, str(tmp_path / "own"), head=head, object_format="sha1", objects=str(objects))


def test_git_sees_the_live_tree_through_it(tmp_path: Path, user: User, live: Path) -> None:
    write(live, {"a.txt": "changed\n", "new.txt": "n\n", "x.private": "x\n"})
    (live / ".git/info/exclude").write_text("*.private\n")
    repository = find_repository(str(live))
    before = everything(live)
    own = look(tmp_path, repository)
    copy_index(repository, own)
    assert own.read("diff-files", "--name-only") == b"a.txt\n"
    assert own.read("ls-files", "--others", "--exclude-standard") == b"new.txt\n"
    assert own.read("cat-file", "-p", f"{read_head(repository).commit}:a.txt") == b"one\n"
    assert everything(live) == before
    assert stat.S_IMODE(Path(own.path).stat().st_mode) == 0o700


def test_writing_leaves_objects_alone_that_exist_already(tmp_path: Path, user: User, live: Path) -> None:
    """git sets the time of an object that it would have written: seen through alternates, the live one's."""
    for pack in (False, True):
        if pack:
            user.git(live, "gc", "-q")
        for path in (live / ".git/objects").rglob("*"):
            os.utime(path, (1_000_000_000, 1_000_000_000))
        before = everything(live)
        folder = tmp_path / f"pack-{pack}"
        folder.mkdir()
        own = look(folder, find_repository(str(live)))
        own.write("update-index", "--add", "-z", "--stdin", input=b"a.txt\0sub/b.txt\0")
        tree = own.write("write-tree", "--missing-ok").strip().decode()
        assert tree == user.git(live, "rev-parse", "HEAD^{tree}")
        assert everything(live) == before


def test_an_index_is_copied_with_its_time(tmp_path: Path, user: User, live: Path) -> None:
    os.utime(live / ".git/index", ns=(5, 1_234_567_890_123_456_789))
    repository = find_repository(str(live))
    own = look(tmp_path, repository)
    stamp = copy_index(repository, own)
    assert Path(own.index).stat().st_mtime_ns == 1_234_567_890_123_456_789
    assert Path(own.index).read_bytes() == (live / ".git/index").read_bytes()
    assert index_stamp(repository) == stamp
    user.git(live, "update-index", "--force-write-index")
    assert index_stamp(repository) != stamp


def test_there_may_be_no_index(tmp_path: Path, live: Path) -> None:
    repository = find_repository(str(live))
    own = look(tmp_path, repository)
    assert copy_index(repository, own) is not None
    (live / ".git/index").unlink()
    assert copy_index(repository, own) is None
    assert index_stamp(repository) is None
    assert not Path(own.index).exists(), "an older copy must not stay"


def test_an_index_that_is_a_pipe_is_not_opened(tmp_path: Path, live: Path) -> None:
    (live / ".git/index").unlink()
    os.mkfifo(live / ".git/index")
    repository = find_repository(str(live))
    assert copy_index(repository, look(tmp_path, repository)) is None


def test_a_lock_that_somebody_left_does_not_matter(tmp_path: Path, live: Path) -> None:
    (live / ".git/index.lock").touch()
    repository = find_repository(str(live))
    own = look(tmp_path, repository)
    copy_index(repository, own)
    own.read("update-index", "--force-write-index")
    assert (live / ".git/index.lock").exists()


def test_info_that_is_gone_is_gone_here_too(tmp_path: Path, live: Path) -> None:
    (live / ".git/info/attributes").write_text("* ident\n")
    repository = find_repository(str(live))
    own = look(tmp_path, repository)
    assert own.has_info("attributes")
    own.set_info("attributes", AS_IT_STANDS)
    (live / ".git/info/attributes").unlink()
    copy_info(repository, own.path)
    assert not own.has_info("attributes")


@pytest.mark.parametrize("form", ["sha1", "sha256"])
def test_one_made_by_hand_is_one_for_git(tmp_path: Path, user: User, form: str) -> None:
    live = user.repository(tmp_path / 'odd "na\\me"\n', None, f"--object-format={form}")
    commit = user.git(live, "rev-parse", "HEAD")
    (tmp_path / "made").mkdir()
    make_git_dir(
        str(tmp_path / "made/.git"),
        head=Head(branch="refs/heads/main", commit=commit),
        object_format=form,
        settings={"gc.auto": "0"},
        alternates=(f"{live}/.git/objects",),
        refs={"refs/heads/main": commit, "refs/heads/caf\udce9": commit},
    )
    made = tmp_path / "made"
    assert user.git(made, "rev-parse", "HEAD") == commit
    assert user.git(made, "for-each-ref", "--format=%(refname)") == "refs/heads/caf\udce9\nrefs/heads/main"
    assert user.git(made, "config", "--local", "--get", "gc.auto") == "0"
    assert user.git(made, "fsck", "--strict") == ""
    assert user.git(made, "log", "--format=%s") == "first"


@pytest.mark.parametrize(
    ("head", "line"),
    [
        (Head(branch="refs/heads/x", commit="1" * 40), "ref: refs/heads/x\n"),
        (Head(commit="1" * 40), "1" * 40 + "\n"),
        (Head(), "ref: refs/heads/main\n"),
    ],
)
def test_what_head_says(tmp_path: Path, head: Head, line: str) -> None:
    make_git_dir(str(tmp_path / "own"), head=head, object_format="sha1", settings={})
    assert (tmp_path / "own/HEAD").read_text() == line
