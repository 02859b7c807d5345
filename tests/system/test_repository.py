"""Reading a repository without git: the same answers as git, and a sentence for what cannot be read."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trees import User, write

from tower.system.repository import (
    Head,
    Repository,
    check_repository,
    find_repository,
    is_ref_name,
    object_format,
    read_head,
    read_refs,
)


@pytest.fixture
def user(tmp_path: Path) -> User:
    return User(tmp_path / "home")


def test_an_ordinary_one_from_every_depth(tmp_path: Path, user: User) -> None:
    live = user.repository(tmp_path / "live")
    expected = Repository(top=str(live), git_dir=str(live / ".git"), common_dir=str(live / ".git"))
    (tmp_path / "link").symlink_to(live)
    for path in (live, live / "sub", tmp_path / "link", tmp_path / "link/sub"):
        assert find_repository(str(path)) == expected
    assert read_head(expected) == Head(branch="refs/heads/main", commit=user.git(live, "rev-parse", "HEAD"))


def test_a_linked_work_tree_and_a_submodule(tmp_path: Path, user: User) -> None:
    library = user.repository(tmp_path / "library")
    live = user.repository(tmp_path / "live")
    user.git(live, "submodule", "-q", "add", str(library), "module")
    user.git(live, "worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    side = find_repository(str(tmp_path / "side"))
    assert side.git_dir == str(live / ".git/worktrees/side")
    assert side.common_dir == str(live / ".git")
    assert read_head(side).branch == "refs/heads/side"
    module = find_repository(str(live / "module"))
    assert module.git_dir == module.common_dir == str(live / ".git/modules/module")


def test_a_broken_git_folder_is_passed_by_as_git_does(tmp_path: Path, user: User) -> None:
    live = user.repository(tmp_path / "live")
    (live / "sub/.git").mkdir()
    assert find_repository(str(live / "sub")).top == str(live)


def no_folder(tmp_path: Path, _: User) -> Path:
    return tmp_path / "absent"


def a_file(tmp_path: Path, _: User) -> Path:
    (tmp_path / "file").touch()
    return tmp_path / "file"


def no_repository(tmp_path: Path, _: User) -> Path:
    (tmp_path / "plain").mkdir()
    return tmp_path / "plain"


def bare(tmp_path: Path, user: User) -> Path:
    user.git(tmp_path, "init", "-q", "--bare", "bare.git")
    return tmp_path / "bare.git"


def inside_git_dir(tmp_path: Path, user: User) -> Path:
    return user.repository(tmp_path / "live") / ".git/hooks"


def bare_behind_a_file(tmp_path: Path, user: User) -> Path:
    """As people do who keep only linked work trees."""
    live = user.repository(tmp_path / "live")
    (tmp_path / "project").mkdir()
    user.git(tmp_path, "clone", "-q", "--bare", str(live), "project/.bare")
    (tmp_path / "project/.git").write_text("gitdir: ./.bare\n")
    return tmp_path / "project"


def pruned(tmp_path: Path, user: User) -> Path:
    live = user.repository(tmp_path / "live")
    user.git(live, "worktree", "add", "-q", str(tmp_path / "side"))
    subprocess.run(["rm", "-r", str(live / ".git/worktrees")], check=True)
    return tmp_path / "side"


def reftable(tmp_path: Path, user: User) -> Path:
    live = user.repository(tmp_path / "live")
    (live / ".git/reftable").mkdir()
    return live


def broken_head(tmp_path: Path, user: User) -> Path:
    live = user.repository(tmp_path / "live")
    (live / ".git/HEAD").write_text("ref: ../../outside\n")
    return live


def head_is_a_pipe(tmp_path: Path, user: User) -> Path:
    live = user.repository(tmp_path / "live")
    (live / ".git/HEAD").unlink()
    os.mkfifo(live / ".git/HEAD")
    return live


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (no_folder, "is not a folder"),
        (a_file, "is not a folder"),
        (no_repository, "is not in a git repository; run `git init`"),
        (bare, "is a bare repository"),
        (inside_git_dir, "lies in a git directory"),
        (bare_behind_a_file, "commits but no index"),
        (pruned, "which is no git directory; mend the link with `git worktree repair`"),
        (reftable, "reftable format"),
        (broken_head, "names neither a branch nor a commit"),
        (head_is_a_pipe, "names neither a branch nor a commit"),
    ],
)
def test_what_is_unfit_is_told_in_a_sentence(
    tmp_path: Path, user: User, make: Callable[[Path, User], Path], words: str
) -> None:
    told = check_repository(str(make(tmp_path, user)))
    assert told is not None
    assert told.startswith("cannot ")
    assert words in told


def test_what_is_fit_has_nothing_to_tell(tmp_path: Path, user: User) -> None:
    assert check_repository(str(user.repository(tmp_path / "live"))) is None
    (tmp_path / "new").mkdir()
    user.git(tmp_path / "new", "init", "-q")
    assert check_repository(str(tmp_path / "new")) is None


def test_refs_are_read_as_git_reads_them(tmp_path: Path, user: User) -> None:
    live = user.repository(tmp_path / "live")
    for name in ("packed", "moved", "deep/er/name", "gone"):
        user.git(live, "branch", name)
    user.git(live, "tag", "-m", "annotated", "v1")
    user.git(live, "pack-refs", "--all")
    write(live, {"a.txt": "2\n"})
    user.commit(live, "second")
    user.git(live, "branch", "-f", "moved")
    user.git(live, "branch", "-D", "gone")
    user.git(live, "update-ref", "refs/remotes/origin/main", "HEAD~1")
    user.git(live, "symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main")
    user.git(live, "update-ref", "refs/tower/private", "HEAD")
    listed = user.git(live, "for-each-ref", "--format=%(refname) %(objectname)").splitlines()
    expected = dict(line.split() for line in listed if not line.startswith("refs/tower/"))
    assert len(expected) == 7
    assert read_refs(find_repository(str(live))) == expected


def test_broken_refs_are_left_out(tmp_path: Path, user: User) -> None:
    live = user.repository(tmp_path / "live")
    heads = live / ".git/refs/heads"
    (heads / "empty").touch()
    (heads / "words").write_text("not an id\n")
    (heads / "out").write_text("ref: refs/heads/../../config\n")
    (heads / "ring").write_text("ref: refs/heads/ring\n")
    (heads / "x.lock").write_text("1" * 40)
    os.mkfifo(heads / "pipe")
    (live / ".git/packed-refs").write_bytes(
        b"# header\n" + b"1" * 40 + b" refs/heads/../x\njunk\n^" + b"2" * 40 + b"\n"
    )
    assert read_refs(find_repository(str(live))).keys() == {"refs/heads/main"}


def test_head_through_symbolic_refs(tmp_path: Path, user: User) -> None:
    live = user.repository(tmp_path / "live")
    commit = user.git(live, "rev-parse", "HEAD")
    repository = find_repository(str(live))
    user.git(live, "symbolic-ref", "refs/heads/alias", "refs/heads/main")
    user.git(live, "symbolic-ref", "HEAD", "refs/heads/alias")
    assert read_head(repository) == Head(branch="refs/heads/alias", commit=commit)
    user.git(live, "checkout", "-q", "--detach", "main")
    assert read_head(repository) == Head(commit=commit)
    user.git(live, "symbolic-ref", "HEAD", "refs/heads/unborn")
    assert read_head(repository) == Head(branch="refs/heads/unborn")


@pytest.mark.parametrize("form", ["sha1", "sha256"])
def test_the_object_format_is_told_without_configuration(tmp_path: Path, user: User, form: str) -> None:
    live = tmp_path / "live"
    live.mkdir()
    user.git(live, "init", "-q", f"--object-format={form}")
    repository = find_repository(str(live))
    write(live, {"a.txt": "a\n"})
    user.git(live, "add", "a.txt")
    assert object_format(repository, read_head(repository)) == form
    user.commit(live, "first")
    assert object_format(repository, read_head(repository)) == form
    user.git(live, "checkout", "-q", "--orphan", "unborn")
    assert object_format(repository, read_head(repository)) == form
    user.git(live, "pack-refs", "--all")
    assert object_format(repository, read_head(repository)) == form


def test_nothing_of_its_own_configuration_is_read(tmp_path: Path, user: User) -> None:
    live = user.repository(tmp_path / "live")
    (live / ".git/config").unlink()
    os.mkfifo(live / ".git/config")
    assert check_repository(str(live)) is None


def test_a_repository_that_may_not_be_read(tmp_path: Path, user: User) -> None:
    live = user.repository(tmp_path / "live")
    (live / ".git/HEAD").chmod(0)
    script = "import sys; from tower.system.repository import *; print(check_repository(sys.argv[1]))"
    command = ["python", "-c", script, str(live)]
    if os.geteuid() == 0:
        command = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", *command]
    root = Path(__file__).parents[2]
    told = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
    assert told == f"cannot read {live}/.git/HEAD: permission denied; let the tower's user read it\n"


PARTS = ("a", "b", "/", ".", "..", "@", "{", "~", ".lock", "-", "*", "\\", " ", "\n", "\x7f", "ü")


@settings(max_examples=150)
@given(st.lists(st.sampled_from(PARTS), min_size=1, max_size=5))
def test_no_name_of_a_ref_leads_out(tail: list[str]) -> None:
    name = "refs/" + "".join(tail)
    if is_ref_name(name):
        assert subprocess.run(["git", "check-ref-format", name], check=False).returncode == 0
        assert os.path.normpath(name) == name


@pytest.mark.parametrize("name", ["refs/heads/main", "refs/heads/feature/x-1", "refs/tags/v1.0", "refs/heads/ünï"])
def test_ordinary_names_are_names(name: str) -> None:
    assert is_ref_name(name)


@pytest.mark.parametrize(
    "name", ["HEAD", "main", "refs", "refs/", "/refs/x", "refs/heads/", "refs/a..b", "refs/x.lock"]
)
def test_others_are_not(name: str) -> None:
    assert not is_ref_name(name)
