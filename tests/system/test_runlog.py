"""Logs read in pages; how they are written is tried in test_keeper_output."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from tower.core.errors import BusyError
from tower.system.runlog import LogChunk, log_size, read_log


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Segments of ten bytes, of which two were dropped; offsets in tens."""
    for number, text in {"": "0123456789", ".3": "dddddddddd", ".4": "eeeeeeeeee", ".5": "ff"}.items():
        (tmp_path / f"stdout.log{number}").write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("offset", "limit", "data", "at", "following"),
    [
        (0, 4, b"0123", 0, 4),
        (4, 100, b"456789", 4, 10),  # a page ends at a gap
        (10, 5, b"ddddd", 30, 35),  # and the next one begins behind it
        (29, 5, b"ddddd", 30, 35),
        (35, 100, b"dddddeeeeeeeeeeff", 35, 52),
        (52, 100, b"", 52, 52),
        (99, 100, b"", 52, 52),
        (-4, 100, b"eeff", 48, 52),
        (-30, 3, b"ddd", 30, 33),
        (-99, 3, b"012", 0, 3),
        (0, 0, b"", 0, 0),
    ],
)
def test_pages(folder: Path, offset: int, limit: int, data: bytes, at: int, following: int) -> None:
    page = read_log(folder, "stdout", offset, limit)
    assert page == LogChunk(data=data, offset=at)
    assert page.next_offset == following


def test_a_log_of_one_segment(tmp_path: Path) -> None:
    (tmp_path / "stderr.log").write_text("only a head")
    assert log_size(tmp_path, "stderr") == 11
    assert read_log(str(tmp_path), "stderr", -4, 99) == LogChunk(data=b"head", offset=7)
    assert read_log(tmp_path, "stderr", 20, 99) == LogChunk(data=b"", offset=11)


def test_sizes_are_logical(folder: Path) -> None:
    assert log_size(folder, "stdout") == 52
    assert log_size(folder, "stderr") == 0
    assert log_size(folder / "nowhere", "stdout") == 0
    assert read_log(folder / "nowhere", "stdout", 5, 5) == LogChunk(data=b"", offset=0)


def test_a_page_is_bounded_whatever_is_asked_for(tmp_path: Path) -> None:
    with open(tmp_path / "stdout.log", "wb") as file:
        file.truncate(20 << 20)
    assert len(read_log(tmp_path, "stdout", 0, 1 << 40).data) == 4 << 20


def test_what_is_no_log_is_not_read(folder: Path) -> None:
    (folder / "stdout.log.5").unlink()
    os.mkfifo(folder / "stdout.log.5")
    (folder / "stdout.log.4").unlink()
    (folder / "stdout.log.4").symlink_to("/etc/passwd")
    for name in ("stdout.log.x", "stdout.log.", "stdout.log.-1", "stdout.log.²"):
        (folder / name).touch()
    assert read_log(folder, "stdout", 0, 100).data == b"0123456789"
    assert read_log(folder, "stdout", 10, 100).data == b"dddddddddd"
    assert read_log(folder, "stdout", 40, 100).data == b""


def test_a_head_that_was_emptied(folder: Path) -> None:
    (folder / "stdout.log").write_bytes(b"")
    assert read_log(folder, "stdout", 0, 100) == LogChunk(data=b"", offset=0)
    assert log_size(folder, "stdout") == 0


def test_a_log_that_cannot_be_opened_just_now_is_not_an_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "stdout.log").write_bytes(b"all done\n")

    def fail(*_: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as short:
        short.setattr(os, "open", fail)
        with pytest.raises(BusyError, match="Too many open files"):
            read_log(tmp_path, "stdout", 0, 100)
    assert read_log(tmp_path, "stdout", 0, 100).data == b"all done\n"
