from __future__ import annotations

import os
from pathlib import Path

import pytest
from trees import write

from tower.core.errors import InvalidError
from tower.system.livetree import Kind, LiveTree, Survey, size_of


@pytest.fixture
def top(tmp_path: Path) -> Path:
    write(tmp_path / "top", {"file": "12345", "folder/inner": "", "own/state": "", "ownership": ""})
    (tmp_path / "top/link").symlink_to("folder")
    os.mkfifo(tmp_path / "top/pipe")
    return tmp_path / "top"


@pytest.mark.parametrize(
    ("name", "kind", "why"),
    [
        (b"file", Kind.FILE, None),
        (b"folder", Kind.FOLDER, None),
        (b"folder/inner", Kind.FILE, None),
        (b"link", Kind.LINK, None),
        (b"link/inner", Kind.GONE, None),
        (b"file/inner", Kind.GONE, None),
        (b"absent", Kind.GONE, None),
        (b"absent/deep", Kind.GONE, None),
        (b"own", Kind.LEFT_OUT, None),
        (b"own/state", Kind.LEFT_OUT, None),
        (b"ownership", Kind.FILE, None),
        (b"pipe", Kind.LEFT_OUT, "pipes"),
        (b"x" * 300, Kind.LEFT_OUT, "files that cannot be read (file name too long)"),
    ],
)
def test_what_a_name_is(top: Path, name: bytes, kind: Kind, why: str | None) -> None:
    disk = LiveTree(str(top), [str(top / "own"), str(top.parent), "/elsewhere"])
    found = disk.look(name)
    assert (found.kind, found.why) == (kind, why)


def test_devices_are_never_opened() -> None:
    assert LiveTree("/dev").look(b"null").why == "devices"
    assert LiveTree("/").look(b"dev/null").why == "devices"


def test_a_folder_that_became_a_link_is_seen_when_asked_to_look_anew(top: Path) -> None:
    disk = LiveTree(str(top))
    assert disk.look(b"folder/inner").kind is Kind.FILE
    (top / "folder").rename(top / "moved")
    (top / "folder").symlink_to("moved")
    disk.forget()
    assert disk.look(b"folder/inner").kind is Kind.GONE


def test_signatures_tell_states_apart(top: Path) -> None:
    disk = LiveTree(str(top))
    before = disk.signature(b"file")
    assert before == disk.look(b"file").signature
    assert size_of(before) == 5
    os.utime(top / "file", ns=(0, 0))
    assert disk.signature(b"file") != before
    assert disk.signature(b"absent") is None
    assert size_of(None) == -1


def test_names_in_a_folder(top: Path) -> None:
    disk = LiveTree(str(top))
    assert disk.names_in(b"folder") == [b"inner"]
    assert disk.names_in(b"link") is None
    assert disk.names_in(b"absent") is None


@pytest.mark.parametrize(
    ("name", "target", "out"),
    [
        ("l", "file", False),
        ("l", "../top/file", True),
        ("l", "/etc/passwd", True),
        ("l", "..", True),
        ("deep/er/l", "../../file", False),
        ("deep/er/l", "../../../file", True),
        ("deep/l", "x/../../..", True),
        ("l", "..a/b", False),
    ],
)
def test_links_that_lead_out(top: Path, name: str, target: str, out: bool) -> None:
    (top / name).parent.mkdir(parents=True, exist_ok=True)
    (top / name).symlink_to(target)
    assert LiveTree(str(top)).leads_out(name.encode()) is out


def test_what_is_no_link_leads_nowhere(top: Path) -> None:
    assert not LiveTree(str(top)).leads_out(b"file")


def test_a_survey(top: Path) -> None:
    os.mkfifo(top / "own/pipe")
    disk = LiveTree(str(top), [str(top / "own")])
    assert disk.survey([b"", b"folder", b"own", b"absent", b"link"]) == Survey(
        special=((b"pipe", "pipes"),), attributes=False
    )
    (top / "folder/.gitattributes").symlink_to("nowhere")
    assert disk.survey([b"folder"]).attributes


@pytest.mark.parametrize("name", [".gitignore", ".gitattributes"])
def test_rules_that_would_be_waited_for(top: Path, name: str) -> None:
    os.mkfifo(top / "folder" / name)
    disk = LiveTree(str(top))
    disk.survey([b""])
    with pytest.raises(InvalidError, match=f"{name} is among the pipes"):
        disk.survey([b"folder"])
    with pytest.raises(InvalidError, match=f"{name} is among the pipes"):
        disk.find_blocking()


def test_nothing_to_wait_for(top: Path) -> None:
    write(top, {".gitignore": "", ".git/x": ""})
    os.mkfifo(top / ".git/.gitignore")
    LiveTree(str(top)).find_blocking()
