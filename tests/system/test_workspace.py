from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from trees import User, contents, everything, write

from tower.core.errors import InvalidError
from tower.system import workspace
from tower.system.workspace import live_workspace, remove_workspace, sweep_workspaces, take_snapshot, why_no_place


@pytest.fixture
def user(tmp_path: Path) -> User:
    return User(tmp_path / "home")


def test_the_live_tree_is_a_place_to_work(tmp_path: Path, user: User) -> None:
    live = user.repository(tmp_path / "live")
    (tmp_path / "link").symlink_to(live)
    place = live_workspace(str(tmp_path / "link"))
    assert (place.kind, place.path, place.root) == ("live", str(live), str(live))
    assert place.base == user.git(live, "rev-parse", "HEAD")
    assert place.notes == place.enforced == ()
    assert str(live) in place.writable


def test_it_need_not_be_a_repository(tmp_path: Path) -> None:
    place = live_workspace(str(tmp_path))
    assert place.base is None
    assert "is not in a git repository" in place.notes[0]


@pytest.mark.parametrize("name", ["absent", "file"])
def test_it_must_be_a_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InvalidError, match="is not a folder"):
        live_workspace(str(tmp_path / name))


def test_why_nobody_can_work_somewhere(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "dangling").symlink_to("nowhere")

    def why(name: str) -> tuple[str, str] | None:
        return why_no_place(str(tmp_path / name), writes=True)

    assert why("") is None
    assert why("gone") == (f"there is no folder {tmp_path}/gone", "bring it back, or make it")
    assert why("disk/deep") == (
        f"there is no folder {tmp_path}/disk/deep, nor any below {tmp_path}",
        "see whether its disk is mounted",
    )
    for name in ("file", "dangling"):
        assert why(name) == (f"{tmp_path}/{name} is not a folder", "move it away, and make a folder")


def test_removing_a_snapshot_leaves_nothing_and_the_live_tree_as_it_was(tmp_path: Path, user: User) -> None:
    live = user.repository(tmp_path / "live")
    write(live, {"a.txt": "uncommitted\n"})
    (tmp_path / "snaps").mkdir()
    before = everything(live)
    there = Path(take_snapshot(live=str(live), folder=str(tmp_path / "snaps/1")).path)
    (there / "to-live").symlink_to(live)
    assert remove_workspace(str(tmp_path / "snaps/1")) is None
    assert list((tmp_path / "snaps").iterdir()) == []
    assert everything(live) == before
    assert remove_workspace(str(tmp_path / "snaps/1")) is None


UNPRIVILEGED = "import sys; from tower.system.workspace import *; print(remove_workspace(sys.argv[1]))"


def test_what_an_agent_left_does_not_hinder(tmp_path: Path) -> None:
    place = tmp_path / "1"
    write(place, {"shut/deep/x.txt": "x\n", "none/y.txt": "y\n"})
    deeper = os.open(place, os.O_RDONLY)
    for _ in range(3000):  # too deep for a path, and for a recursion
        os.mkdir("d", dir_fd=deeper)
        next_one = os.open("d", os.O_RDONLY, dir_fd=deeper)
        os.close(deeper)
        deeper = next_one
    os.close(deeper)
    os.mkfifo(place / "pipe")
    (place / "-rf").touch()
    (place / "shut").chmod(0o500)
    (place / "shut/deep").chmod(0o400)
    (place / "none").chmod(0)
    command = [sys.executable, "-c", UNPRIVILEGED, str(place)]
    if os.geteuid() == 0:
        command = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", *command]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True)
    assert done.stdout == "None\n"
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_removed_is_said_and_found_by_the_next_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "snaps/1", {"x.txt": "x\n"})
    with monkeypatch.context() as broken:
        (tmp_path / "bin").mkdir()
        for name in ("rm", "chmod"):
            (tmp_path / "bin" / name).write_text("#!/bin/sh\necho \"rm: cannot remove 'x.txt': Busy\" >&2\nexit 1\n")
            (tmp_path / "bin" / name).chmod(0o755)
        broken.setenv("PATH", str(tmp_path / "bin"))
        told = remove_workspace(str(tmp_path / "snaps/1"))
    assert told is not None
    assert told.startswith(f"cannot remove {tmp_path}/snaps/.gone-1-")
    assert "cannot remove 'x.txt': Busy; remove it by hand" in told
    assert not (tmp_path / "snaps/1").exists()
    assert sweep_workspaces(str(tmp_path / "snaps"), {"1"}) == ()
    assert list((tmp_path / "snaps").iterdir()) == []


def test_a_folder_that_cannot_be_renamed_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "1").mkdir()

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "rename", refuse)
    assert remove_workspace(str(tmp_path / "1")) == (
        f"cannot remove {tmp_path}/1: permission denied; remove it by hand"
    )


def test_a_sweep_keeps_what_is_to_be_kept(tmp_path: Path) -> None:
    for name in ("run_1", "run_2", "run_3", ".gone-run_0-abcd"):
        write(tmp_path / name / "tree", {"work.txt": f"{name}\n"})
    (tmp_path / "stray").touch()
    kept = contents(tmp_path / "run_2")
    assert sweep_workspaces(str(tmp_path), {"run_2"}) == ()
    assert [entry.name for entry in tmp_path.iterdir()] == ["run_2"]
    assert contents(tmp_path / "run_2") == kept


def test_a_sweep_of_what_is_not_there(tmp_path: Path) -> None:
    assert sweep_workspaces(str(tmp_path / "absent"), ()) == ()
    (tmp_path / "file").touch()
    assert "not a directory" in sweep_workspaces(str(tmp_path / "file"), ())[0]


def test_a_sweep_goes_on_past_what_it_cannot_remove(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("1", "2", "3"):
        (tmp_path / name).mkdir()
    removed = workspace.remove_workspace
    monkeypatch.setattr(workspace, "remove_workspace", lambda path: "no" if path.endswith("2") else removed(path))
    assert sweep_workspaces(str(tmp_path), ()) == ("no",)
    assert [entry.name for entry in tmp_path.iterdir()] == ["2"]
