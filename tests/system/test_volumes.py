"""What is kept of named trees goes when no run needs it, and never before; a crash or a power cut harms nothing."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from trees import User, write

from tower.core.errors import NotFoundError
from tower.system import treestore, volumes
from tower.system.rescue import rescue
from tower.system.treestore import Form, difference, name_tree
from tower.system.volumes import AFTERWARDS, WEEK, drop_unneeded, writable

NOW = 1_790_000_000.0


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def time(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(volumes, "time", clock)
    return clock


@pytest.fixture
def user(tmp_path: Path) -> User:
    return User(tmp_path / "home")


@pytest.fixture
def live(tmp_path: Path, user: User) -> Path:
    return user.repository(tmp_path / "live", {f"{name}/f.txt": f"{name}\n" for name in "abc"})


@pytest.fixture
def store(tmp_path: Path) -> str:
    return str(tmp_path / "trees")


def there(store: str) -> int:
    return len(volumes.volumes(store, "sha1"))


def test_a_week_s_trees_go_when_none_of_them_is_needed(live: Path, store: str, clock: Clock) -> None:
    trees = []
    for text in ("one", "two"):
        write(live, {"a/f.txt": text, "uncommitted.txt": "never\n"})
        trees.append(name_tree(str(live), store).tree)
    clock.now += WEEK + 1
    write(live, {"a/f.txt": "three"})
    trees.append(name_tree(str(live), store).tree)
    assert there(store) == 2
    assert drop_unneeded(store, {trees[2]}, clock.now) == ()
    assert there(store) == 2, "somebody may still record what was named in the last moment"
    clock.now += AFTERWARDS
    assert drop_unneeded(store, {trees[0]}, clock.now) == ()
    assert there(store) == 2
    assert b"-one" in difference(store, trees[0], trees[2])
    assert drop_unneeded(store, {trees[2]}, clock.now) == ()
    assert there(store) == 1
    with pytest.raises(NotFoundError, match="cannot show what changed"):
        difference(store, trees[0], trees[2])
    assert difference(store, trees[2], trees[2]) == b""


def test_a_run_over_two_weeks_is_shown_and_what_is_named_anew_is_whole(live: Path, store: str, clock: Clock) -> None:
    write(live, {"u/untracked.txt": "the same all the time\n"})
    before = name_tree(str(live), store).tree
    clock.now += WEEK + 1
    same = name_tree(str(live), store).tree
    assert same == before
    write(live, {"b/f.txt": "changed\n", "u/untracked.txt": "changed\n"})
    after = name_tree(str(live), store).tree
    assert b"-the same all the time" in difference(store, before, after)
    clock.now += WEEK + AFTERWARDS + 1
    name_tree(str(live), store)
    oldest = volumes.volumes(store, "sha1")[-1]
    assert drop_unneeded(store, {after}, clock.now) == ()
    assert not oldest.exists()
    # What the second week holds does not lean on the first one.
    assert b"-the same all the time" in difference(store, same, after)


def test_the_one_that_is_written_to_never_goes(live: Path, store: str, clock: Clock) -> None:
    name_tree(str(live), store)
    assert drop_unneeded(store, set(), clock.now + WEEK) == ()
    assert there(store) == 1
    assert drop_unneeded(store, set(), clock.now + WEEK + AFTERWARDS + 1) == ()
    assert there(store) == 0
    assert drop_unneeded(store, set(), clock.now) == ()


def test_what_a_crash_left_goes(live: Path, store: str, clock: Clock) -> None:
    name_tree(str(live), store)
    left = [Path(store, "sha1", name) for name in ("new-half", ".gone-half")]
    for folder in left:
        (folder / "objects").mkdir(parents=True)
    assert drop_unneeded(store, set(), time.time()) == ()
    assert [folder.exists() for folder in left] == [True, False]
    assert drop_unneeded(store, set(), time.time() + AFTERWARDS + 10) == ()
    assert not left[0].exists()


@pytest.mark.parametrize("lost", ["objects", "HEAD", "config", "boot"])
def test_a_volume_that_a_power_cut_damaged_is_written_to_no_more(
    live: Path, store: str, clock: Clock, lost: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = name_tree(str(live), store).tree
    (volume,) = volumes.volumes(store, "sha1")
    damaged = list(volume.glob("objects/??/*")) if lost == "objects" else [volume / lost]
    for path in damaged[:1]:
        path.chmod(0o600)
        path.write_bytes(b"")
    monkeypatch.setattr(volumes.procfs, "boot_id", lambda: "another start of the machine")
    write(live, {"a/f.txt": "two\n"})
    same = lost == "boot"
    after = name_tree(str(live), store).tree
    assert there(store) == (1 if same else 2)
    write(live, {"a/f.txt": "a\n"})
    again = name_tree(str(live), store).tree
    assert again == before
    assert difference(store, after, again, Form.NAMES) == b"M\ta/f.txt\n"
    assert there(store) == (1 if same else 2)


def test_a_clock_that_jumps_ends_no_volume_early(live: Path, store: str, clock: Clock) -> None:
    tree = name_tree(str(live), store).tree
    for jump in (-3600.0, 3 * 86400.0):
        clock.now = NOW + jump
        assert name_tree(str(live), store).tree == tree
        assert there(store) == 1
    clock.now = NOW - 900 * 86400.0
    name_tree(str(live), store)
    assert there(store) == 2


def test_large_contents_that_git_packs_are_kept_with_the_rest(
    live: Path, store: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(treestore, "PRIVATE_OBJECTS", "core.bigFileThreshold=1k")
    (live / "film").write_bytes(b"\0\1" * 5000)
    before = name_tree(str(live), store).tree
    (live / "film").write_bytes(b"\1\0" * 5000)
    after = name_tree(str(live), store).tree
    (volume,) = volumes.volumes(store, "sha1")
    assert list((volume / "objects/pack").glob("*.pack"))
    clock.now += WEEK + AFTERWARDS + 1
    assert drop_unneeded(store, {before}, clock.now) == ()
    assert b"GIT binary patch" in difference(store, before, after)
    assert not volumes.holds(volume, {"0" * 40})
    assert drop_unneeded(store, {"0" * 40}, clock.now) == ()
    assert there(store) == 0


def test_what_cannot_be_looked_into_stays_and_is_said(live: Path, store: str, clock: Clock) -> None:
    name_tree(str(live), store)
    (volume,) = volumes.volumes(store, "sha1")
    (volume / "objects/pack/pack-broken.pack").touch()
    (volume / "HEAD").unlink()
    (told,) = drop_unneeded(store, {"0" * 40}, clock.now + WEEK + AFTERWARDS + 1)
    assert told.startswith(f"cannot tell whether {volume} is still needed")
    assert volume.exists()


def test_a_rescue_needs_nothing_of_it(live: Path, user: User, store: str, clock: Clock) -> None:
    write(live, {"a/f.txt": "uncommitted\n"})
    rescue(str(live), "run_1", store=store)
    drop_unneeded(store, set(), clock.now + WEEK + AFTERWARDS + 1)
    assert there(store) == 0
    user.git(live, "checkout", "-q", "--", ".")
    user.git(live, "restore", "--source=refs/tower/rescue/run_1", "--worktree", ":/")
    assert (live / "a/f.txt").read_text() == "uncommitted\n"


def test_two_at_once_make_one(store: str, clock: Clock) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = set(pool.map(lambda _: writable(store, "sha1"), range(16)))
    assert made == set(volumes.volumes(store, "sha1"))
    assert len(made) == 1
    assert writable(store, "sha256").parent.name == "sha256"
