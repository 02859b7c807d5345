"""The ballast takes up room, gives it back at once, and is taken on again only when there is room to spare."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tower.system.ballast import BALLAST_BYTES, Ballast
from tower.system.disk import free_bytes


def test_it_really_takes_up_its_room(tmp_path: Path) -> None:
    ballast = Ballast(tmp_path / "ballast")
    assert ballast.take()
    assert ballast.take()
    found = (tmp_path / "ballast").stat()
    assert found.st_blocks * 512 >= BALLAST_BYTES
    assert found.st_mode & 0o077 == 0
    ballast.throw_off()
    ballast.throw_off()
    assert ballast.is_thrown_off
    assert not (tmp_path / "ballast").exists()
    assert ballast.take()
    assert not ballast.is_thrown_off


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={3 * BALLAST_BYTES}", "tmpfs", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
def test_a_full_disk_has_room_again_when_it_is_thrown_off(small_disk: Path) -> None:
    ballast = Ballast(small_disk / "ballast")
    assert ballast.take()
    filler = small_disk / "filler"
    filler.write_bytes(b"x" * free_bytes(small_disk))
    assert free_bytes(small_disk) == 0
    ballast.throw_off()
    assert free_bytes(small_disk) >= BALLAST_BYTES
    # No more than its own room is free: taking it on again would only fill the disk anew.
    assert not ballast.take()
    assert ballast.is_thrown_off
    filler.unlink()
    assert ballast.take()


def test_a_folder_that_cannot_hold_it_is_no_error(tmp_path: Path) -> None:
    assert not Ballast(tmp_path / "gone" / "ballast").take()
