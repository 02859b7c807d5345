"""Small files, written whole or not at all."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tower.core.errors import BusyError
from tower.system import files
from tower.system.files import read_regular, write_private


def test_a_file_that_cannot_be_flushed_leaves_the_old_one_and_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "answer.txt"
    write_private(place, b"old")

    def fail(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", fail)
        with pytest.raises(OSError, match="Input/output error"):
            write_private(place, b"new")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"answer.txt": b"old"}
    write_private(place, b"new")
    assert place.read_bytes() == b"new"


def test_evidence_that_cannot_be_opened_just_now_is_not_taken_for_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "report"
    place.write_text("cost_usd: 1")

    def fail(*_: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as short:
        short.setattr(os, "open", fail)
        assert read_regular(place, 100) is None
        with pytest.raises(BusyError, match="Too many open files"):
            read_regular(place, 100, is_evidence=True)
    assert read_regular(place, 100, is_evidence=True) == b"cost_usd: 1"
    assert read_regular(tmp_path / "missing", 100, is_evidence=True) is None


@pytest.mark.parametrize("refusal", [None, errno.EXDEV, errno.EOPNOTSUPP])
def test_a_content_is_copied_whatever_the_kernel_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusal: int | None
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(refusal, "cannot")

    if refusal is not None:
        monkeypatch.setattr(os, "copy_file_range", refuse)
    monkeypatch.setattr(files, "MOST_AT_ONCE", 1000)
    content = bytes(range(256)) * 20
    (tmp_path / "from").write_bytes(content)
    with (tmp_path / "from").open("rb") as source, (tmp_path / "to").open("wb") as target:
        assert files.copy_content(source.fileno(), target.fileno()) == len(content)
    assert (tmp_path / "to").read_bytes() == content


def test_a_copy_that_fails_half_way_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> int:
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(os, "copy_file_range", fail)
    (tmp_path / "from").write_bytes(b"x")
    with (
        (tmp_path / "from").open("rb") as source,
        (tmp_path / "to").open("wb") as target,
        pytest.raises(OSError, match="no space"),
    ):
        files.copy_content(source.fileno(), target.fileno())


CUT_OFF = """
import os, sys
from pathlib import Path
from tower.system.files import write_private
target, old = Path(sys.argv[1]), sys.argv[2].encode()
step, ended = 0, 9
while ended == 9:
    step += 1
    target.unlink(missing_ok=True)
    if old:
        write_private(target, old)
    child = os.fork()
    if child == 0:
        def count(frame, event, called):
            count.left -= event == "c_call"
            if count.left == 0:
                os._exit(9)
        count.left = step
        sys.setprofile(count)
        write_private(target, b"new " * 9000)
        os._exit(0)
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    found = target.read_bytes() if target.exists() else b""
    assert found in (old, b"new " * 9000), (step, found[:20])
assert (ended, found) == (0, b"new " * 9000), ended
print(step)
"""


@pytest.mark.parametrize("old", ["", "old"])
def test_a_save_that_is_cut_off_before_any_of_its_calls_leaves_the_old_file_or_the_new_one(
    tmp_path: Path, old: str
) -> None:
    """B077: absence would be taken for a fresh state; with an old file there is no moment without one."""
    done = subprocess.run(
        [sys.executable, "-c", CUT_OFF, str(tmp_path / "saved"), old], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 8
