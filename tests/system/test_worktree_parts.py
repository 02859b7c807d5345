"""Work trees of repositories with submodules and files of LFS: whole, and not removed while any part has work alone."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import pytest
from trees import User, contents, everything, make_hostile, write

from tower.core.errors import TowerError
from tower.system.rescue import rescue
from tower.system.snapshot import take_snapshot
from tower.system.worktree import make_worktree
from tower.system.worktree_removal import remove_worktree, why_kept, why_lost

BRANCH = "tower/itn_1"
FILM = b"\0real content" * 5000


@pytest.fixture
def user(tmp_path: Path) -> User:
    return User(tmp_path / "home")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "trees/itn_1"


@pytest.fixture
def live(tmp_path: Path, user: User) -> Path:
    """With a submodule that has one itself; both are behind their origins, and changed."""
    deep = user.repository(tmp_path / "deep", {"d.txt": "deep\n"})
    library = user.repository(tmp_path / "library", {"l.txt": "library\n"})
    user.git(library, "submodule", "-q", "add", str(deep), "inner one")
    user.commit(library, "with another one")
    made = user.repository(tmp_path / "live")
    user.git(made, "submodule", "-q", "add", str(library), "libs/mod")
    user.git(made, "submodule", "-q", "update", "--init", "--recursive")
    user.commit(made, "with a submodule")
    write(made, {"libs/mod/l.txt": "uncommitted\n", "libs/mod/new.txt": "untracked\n"})
    return made


def pointer(content: bytes) -> bytes:
    identity = hashlib.sha256(content).hexdigest()
    return f"version https://git-lfs.github.com/spec/v1\noid sha256:{identity}\nsize {len(content)}\n".encode()


def test_submodules_are_there_at_their_commits_on_the_chain_s_branch(
    live: Path, user: User, place: Path, tmp_path: Path
) -> None:
    before = contents(live)
    made = make_worktree(str(live), str(place), BRANCH)
    assert made.notes == ()
    assert contents(live) == before
    assert (place / "libs/mod/l.txt").read_text() == "library\n"
    assert (place / "libs/mod/inner one/d.txt").read_text() == "deep\n"
    for below in (".", "libs/mod", "libs/mod/inner one"):
        assert user.status(place / below) == [""]
        assert user.git(place / below, "branch", "--show-current") == BRANCH
        assert user.git(live / below, "fsck", "--strict") == ""
    assert user.git(place, "submodule", "status", "--recursive").count("\n") == 1
    taken = take_snapshot(live=str(place), folder=str(tmp_path / "shot"))
    assert contents(Path(taken.path)) == contents(place)
    assert taken.notes == ()
    assert why_kept(str(live), str(place), BRANCH) is None
    assert remove_worktree(str(live), str(place), BRANCH) is None
    for below in (".", "libs/mod", "libs/mod/inner one"):
        assert user.git(live / below, "branch", "--list", "tower/*") == ""
        assert user.git(live / below, "worktree", "list").count("\n") == 0


def test_what_is_committed_in_a_submodule_is_in_the_live_one_s_repository(live: Path, user: User, place: Path) -> None:
    make_worktree(str(live), str(place), BRANCH)
    write(place, {"libs/mod/l.txt": "by the chain\n"})
    assert why_kept(str(live), str(place), BRANCH) == "libs/mod/l.txt changed and not committed"
    commit = user.commit(place / "libs/mod", "in the submodule")
    alone = f"1 commits of {BRANCH} in libs/mod that no other branch has"
    assert why_kept(str(live), str(place), BRANCH) == alone
    user.commit(place, "with the new submodule")
    user.git(live, "merge", "-q", BRANCH)
    assert why_kept(str(live), str(place), BRANCH) == alone
    user.git(live / "libs/mod", "branch", "merged", commit)
    assert why_kept(str(live), str(place), BRANCH) is None
    remove_worktree(str(live), str(place), BRANCH)
    assert user.git(live / "libs/mod", "branch", "--list", "tower/*") == ""
    assert user.git(live, "ls-tree", "HEAD", "libs/mod").split()[2] == commit


def test_by_force_a_submodule_s_work_is_rescued_and_its_branch_stays(
    live: Path, user: User, place: Path, tmp_path: Path
) -> None:
    make_worktree(str(live), str(place), BRANCH)
    write(place, {"libs/mod/l.txt": "committed\n"})
    commit = user.commit(place / "libs/mod", "in the submodule")
    write(place, {"libs/mod/l.txt": "uncommitted by the chain\n"})
    assert why_lost(str(live), str(place)) is None
    rescue(str(place), "itn_1", store=str(tmp_path / "store"))
    remove_worktree(str(live), str(place), BRANCH)
    assert not place.exists()
    assert user.git(live / "libs/mod", "rev-parse", BRANCH) == commit
    assert user.git(live / "libs/mod", "show", "refs/tower/rescue/itn_1:l.txt") == "uncommitted by the chain"


def test_a_submodule_taken_out_of_the_tree_keeps_its_commits(live: Path, user: User, place: Path) -> None:
    make_worktree(str(live), str(place), BRANCH)
    write(place, {"libs/mod/l.txt": "committed\n"})
    user.commit(place / "libs/mod", "in the submodule")
    shutil.rmtree(place / "libs/mod")
    user.git(place, "rm", "-q", "--cached", "libs/mod")
    user.commit(place, "without it")
    user.git(live, "merge", "-q", BRANCH)
    assert "in modules/libs/mod that no other branch has" in str(why_kept(str(live), str(place), BRANCH))


@pytest.mark.parametrize("how", ["cloned", "updated", "hidden"])
def test_a_repository_of_its_own_is_not_lost_by_force_either(
    live: Path, user: User, place: Path, tmp_path: Path, how: str
) -> None:
    if how != "cloned":
        user.git(live, "submodule", "-q", "deinit", "-f", "libs/mod")
        shutil.rmtree(live / ".git/modules")
    make_worktree(str(live), str(place), BRANCH)
    own = place / "libs/mod"
    if how == "cloned":
        own = place / "clone"
        user.git(place, "clone", "-q", str(tmp_path / "library"), str(own))
        assert "clone" in str(why_kept(str(live), str(place), BRANCH))
    else:
        user.git(place, "submodule", "-q", "update", "--init", "libs/mod")
        assert why_kept(str(live), str(place), BRANCH) is None
    assert why_lost(str(live), str(place)) is None
    write(own, {"l.txt": "work\n"})
    assert "l.txt changed and not committed" in str(why_lost(str(live), str(place)))
    user.commit(own, "work")
    if how == "hidden":
        user.git(place, "submodule", "-q", "deinit", "-f", "libs/mod")
    for why in (why_lost(str(live), str(place)), why_kept(str(live), str(place), BRANCH)):
        assert "1 commits in" in str(why) or (how == "cloned" and "clone/" in str(why))
    if how == "updated":
        user.git(own, "push", "-q", "origin", "HEAD:refs/heads/pushed")
        assert why_kept(str(live), str(place), BRANCH) is None


@pytest.mark.parametrize("how", ["not filled", "commit missing", "elsewhere", "a link", "branch taken"])
def test_a_submodule_that_cannot_be_taken_is_empty_and_said(
    live: Path, user: User, place: Path, tmp_path: Path, how: str
) -> None:
    module = live / "libs/mod"
    other = user.repository(tmp_path / "other", {"secret.txt": "s\n"})
    if how == "not filled":
        user.git(live, "submodule", "-q", "deinit", "-f", "libs/mod")
    elif how == "commit missing":
        user.git(live, "update-index", "--cacheinfo", f"160000,{'1' * 40},libs/mod")
        user.git(live, "commit", "-qm", "a commit that was not pushed")
    elif how == "elsewhere":
        (module / ".git").write_text(f"gitdir: {other}/.git\n")
    elif how == "a link":
        shutil.rmtree(module)
        module.symlink_to(other)
    else:
        user.git(module, "branch", BRANCH)
        user.git(module, "commit", "-q", "--allow-empty", "-m", "x")
        user.git(live, "commit", "-qm", "x", "libs/mod")
    before = everything(other)
    (note,) = make_worktree(str(live), str(place), BRANCH).notes
    assert note.startswith("libs/mod, a submodule, is empty in this work tree: cannot ")
    assert list((place / "libs/mod").iterdir()) == []
    assert everything(other) == before
    assert user.git(place, "status", "--porcelain") == ""


def test_nothing_that_a_submodule_s_configuration_names_is_executed(live: Path, place: Path) -> None:
    marker = make_hostile(live)
    make_worktree(str(live), str(place), BRANCH)
    why_kept(str(live), str(place), BRANCH)
    why_lost(str(live), str(place))
    remove_worktree(str(live), str(place), BRANCH)
    assert not marker.exists()


def large(live: Path, user: User, *, kept: bool, fetched: bool) -> None:
    """A file of LFS, as its filter leaves it: in LFS's own store, in the work tree, or in neither."""
    write(live, {".gitattributes": "*.big filter=lfs diff=lfs merge=lfs -text\n*.id ident\n", "name.id": "$Id$\n"})
    (live / "films").mkdir()
    (live / "films/a.big").write_bytes(pointer(FILM))
    (live / "films/a.big").chmod(0o755)
    (live / "plain.big").write_bytes(b"never was a pointer")
    user.commit(live, "a film")
    if kept:
        identity = hashlib.sha256(FILM).hexdigest()
        store = live / ".git/lfs/objects" / identity[:2] / identity[2:4]
        store.mkdir(parents=True)
        (store / identity).write_bytes(FILM)
    if fetched:
        (live / "films/a.big").write_bytes(FILM)


@pytest.mark.parametrize(("kept", "fetched"), [(True, False), (False, True), (True, True)])
def test_files_of_lfs_are_there_and_are_no_change(
    live: Path, user: User, place: Path, tmp_path: Path, kept: bool, fetched: bool
) -> None:
    large(live, user, kept=kept, fetched=fetched)
    notes = make_worktree(str(live), str(place), BRANCH).notes
    assert notes == ("files that a filter or a rule stands before are as git keeps them here: name.id",)
    film = place / "films/a.big"
    assert (film.read_bytes(), film.stat().st_mode & 0o777) == (FILM, 0o755)
    assert (place / "plain.big").read_bytes() == b"never was a pointer"
    assert why_kept(str(live), str(place), BRANCH) is None
    # Nobody configured the filter here, and git takes it for unchanged all the same.
    assert user.status(place) == [""]
    assert rescue(str(place), "itn_1", store=str(tmp_path / "store")) == ()
    film.write_bytes(FILM[:-1] + b"!")
    assert why_kept(str(live), str(place), BRANCH) == "films/a.big changed and not committed"
    user.git(place, "fsck")
    assert user.git(place, "ls-files", "-s", "films/a.big").split()[1] == user.git(
        live, "rev-parse", "HEAD:films/a.big"
    )


@pytest.mark.parametrize("how", ["nowhere", "other content", "a link out of the tree", "a link in the store"])
def test_a_file_of_lfs_that_is_not_here_is_a_pointer_and_said(
    live: Path, user: User, place: Path, tmp_path: Path, how: str
) -> None:
    large(live, user, kept=how == "a link in the store", fetched=False)
    outside = tmp_path / "outside"
    outside.write_bytes(FILM)
    film = live / "films/a.big"
    if how == "other content":
        film.write_bytes(b"x" * len(FILM))
    elif how == "a link out of the tree":
        film.unlink()
        film.symlink_to(outside)
    elif how == "a link in the store":
        (kept,) = (path for path in (live / ".git/lfs").rglob("*") if path.is_file())
        kept.unlink()
        kept.symlink_to(outside)
    notes = make_worktree(str(live), str(place), BRANCH).notes
    assert "files of git LFS that are not on this machine are pointers here: films/a.big" in notes
    assert (place / "films/a.big").read_bytes() == pointer(FILM)
    assert user.status(place) == [""]


@pytest.mark.parametrize("form", ["sha1", "sha256"])
def test_every_object_format_and_name(tmp_path: Path, user: User, place: Path, form: str) -> None:
    live = tmp_path / "live"
    live.mkdir()
    user.git(live, "init", "-q", f"--object-format={form}")
    names = [b"a.big", b"caf\xe9.big", b"line\nbreak.big", b"-dash.big", b"x" * 200 + b".big"]
    for number, name in enumerate(names):
        (live / os.fsdecode(name)).write_bytes(pointer(FILM + bytes([number])))
    write(live, {".gitattributes": "*.big filter=lfs\n"})
    user.commit(live, "films")
    for number, name in enumerate(names[:-1]):
        (live / os.fsdecode(name)).write_bytes(FILM + bytes([number]))
    make_worktree(str(live), str(place), BRANCH)
    found = contents(place)
    for number, name in enumerate(names[:-1]):
        assert found[name][1] == FILM + bytes([number])
    assert found[names[-1]][1] == pointer(FILM + b"\4")
    assert user.status(place) == [""]


def test_one_that_is_no_work_tree_any_more_is_said(live: Path, place: Path) -> None:
    make_worktree(str(live), str(place), BRANCH)
    (place / "libs/mod/.git").write_text("gitdir: /nowhere\n")
    with pytest.raises(TowerError, match="which is no git directory"):
        why_kept(str(live), str(place), BRANCH)
    (place / ".git").unlink()
    with pytest.raises(TowerError, match="it is no work tree any more"):
        why_lost(str(live), str(place))
