import os
import stat
import subprocess
from pathlib import Path

import pytest

from tower.core.errors import BusyError, InvalidError
from tower.system import statedir
from tower.system.statedir import StateDir, prepare


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_it_is_private_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        state = prepare(tmp_path / "deep" / "state")
    finally:
        os.umask(before)
    for folder in (state.root, state.keepers, state.hangars, state.snapshots):
        assert mode(folder) == 0o700


def test_one_that_was_open_is_closed(tmp_path: Path) -> None:
    root = tmp_path / "state"
    root.mkdir(mode=0o755)
    root.chmod(0o755)
    prepare(root)
    assert mode(root) == 0o700


def test_preparing_again_changes_nothing(tmp_path: Path) -> None:
    state = prepare(tmp_path / "state")
    (state.root / ".gitignore").write_text("# mine\n*\n")
    memory = state.hangar("coder") / "memory.md"
    memory.parent.mkdir()
    memory.write_text("kept")
    assert prepare(state.root) == state
    assert memory.read_text() == "kept"
    assert (state.root / ".gitignore").read_text() == "# mine\n*\n"


def test_git_does_not_see_it(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    prepare(tmp_path / ".layover")
    shown = subprocess.run(["git", "-C", tmp_path, "status", "--porcelain"], check=True, capture_output=True)
    assert shown.stdout == b""


def test_paths_are_absolute_and_named_after_their_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    state = prepare(Path("state"))
    assert state == StateDir(tmp_path / "state")
    assert state.database == state.root / "tower.db"
    assert state.keepers == state.root / "k"
    assert state.lock == state.root
    assert state.run_folder("coder", "run_1") == state.root / "hangars" / "coder" / "run_1"
    assert state.hangar("coder") == state.run_folder("coder", "run_1").parent


def test_a_file_in_its_place(tmp_path: Path) -> None:
    (tmp_path / "state").touch()
    with pytest.raises(InvalidError, match=r"cannot keep state in .*state: (file exists|not a directory)"):
        prepare(tmp_path / "state")
    with pytest.raises(InvalidError, match="not a directory"):
        prepare(tmp_path / "state" / "below")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a folder that belongs to somebody else")
def test_somebody_elses_folder(tmp_path: Path) -> None:
    root = tmp_path / "state"
    root.mkdir()
    os.chown(root, 12345, 12345)
    with pytest.raises(InvalidError, match="it belongs to uid 12345"):
        prepare(root)


def test_a_read_only_place() -> None:
    with pytest.raises(InvalidError, match="state_dir"):
        prepare(Path("/proc/self/state"))


def test_a_folder_that_may_not_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = prepare(tmp_path / "state").root
    monkeypatch.setattr(statedir.os, "access", lambda *_: False)  # root passes every other obstacle
    with pytest.raises(InvalidError, match="it is not writable"):
        prepare(root)


def test_a_full_disk_is_worth_trying_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "mkdir", full)
    with pytest.raises(BusyError, match="no space left"):
        prepare(tmp_path / "state")


def test_the_names_that_lead_to_a_new_one_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Path] = []
    monkeypatch.setattr("tower.system.statedir.sync_folder", synced.append)
    state = prepare(tmp_path / "new" / "state")
    assert {tmp_path, tmp_path / "new", state.root} == set(synced)
    synced.clear()
    prepare(state.root)
    assert synced == []
