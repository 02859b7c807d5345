import os
from pathlib import Path

import pytest

from tower.system.disk import free_bytes


def test_it_counts_what_an_ordinary_user_may_write(tmp_path: Path) -> None:
    room = os.statvfs(tmp_path)
    free = free_bytes(tmp_path)
    assert 0 < free <= room.f_frsize * room.f_bfree
    assert free % room.f_frsize == 0


def test_a_kernel_file_system_has_none() -> None:
    assert free_bytes(Path("/proc")) == 0


def test_a_missing_path_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        free_bytes(tmp_path / "missing")
