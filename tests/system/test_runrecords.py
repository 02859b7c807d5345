"""The records in the folder of a run: written by a keeper, read by a tower."""

from __future__ import annotations

import json
import os
import resource
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tower.core.errors import BusyError
from tower.core.launch import KEEPER_PROTOCOL, ExitRecord
from tower.system import procfs
from tower.system.keeper.records import BLOCK, ExitFile, create_start, encode, exit_fields
from tower.system.runrecords import read_exit, read_start, remove_drafts, void_start

EXIT = {
    "code": 3,
    "signal": None,
    "ended_at": 1.5,
    "cpu_seconds": 0.25,
    "peak_memory": 4096,
    "out_bytes": 1,
    "err_bytes": 2,
    "limit": None,
    "stopping": None,
    "start_error": None,
    "swept": True,
    "left": [],
    "log_errors": 0,
}

values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text('"\\\n\t\x00\x7fé\U0001f6eb abc', max_size=60),
    st.lists(st.integers(), max_size=5),
)


@given(st.dictionaries(st.text("abc_", min_size=1), values))
def test_what_a_keeper_writes_is_json(fields: dict[str, None]) -> None:
    text = encode(fields)
    assert text.isascii()
    read = json.loads(text)
    assert read.keys() == fields.keys()
    for name, value in fields.items():
        if not isinstance(value, str):
            assert read[name] == value
            assert type(read[name]) is type(value)


def test_a_record_always_fits_its_block() -> None:
    longest = exit_fields(
        ended_at=1e10 / 3,
        status=255 << 8,
        usage=(1e9 / 3, 1 << 60),
        sizes=(1 << 60, 1 << 60),
        limit="first_output",
        stopping="w" * 32,
        start_error="\U0001f6eb" * 5000,
        left=list(range(4_000_000, 4_005_000)),
    )
    assert len(encode(longest)) < BLOCK / 2


def test_an_exit_is_written_twice_and_always_whole(tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    record = ExitFile(folder)
    assert read_exit(tmp_path) is None
    record.write(exit_fields(ended_at=1.0, status=9, swept=False))
    first = read_exit(tmp_path)
    assert first is not None
    assert (first.code, first.signal, first.swept) == (None, 9, False)
    record.write(exit_fields(ended_at=1.0, status=3 << 8, left=[7, 8], swept=False))
    record.close()
    os.close(folder)
    last = read_exit(tmp_path)
    assert last is not None
    assert (last.code, last.signal, last.left) == (3, None, (7, 8))
    assert [path.name for path in tmp_path.iterdir()] == ["exit.json"]


def test_with_the_last_record_goes_what_was_not_needed_before_the_folder_is_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    record = ExitFile(folder)
    synced: list[set[str]] = []
    monkeypatch.setattr(os, "fsync", lambda _: synced.append({path.name for path in tmp_path.iterdir()}))
    record.write(exit_fields(ended_at=1.0), is_last=True)
    os.close(folder)
    assert synced[-1] == {"exit.json"}


def test_a_program_that_removes_what_was_set_aside_changes_nothing(tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    record = ExitFile(folder)
    (tmp_path / "exit.json.2").unlink()
    record.write(exit_fields(ended_at=1.0, status=0), is_last=True)
    os.close(folder)
    assert read_exit(tmp_path) is not None


def test_space_for_the_exit_is_taken_at_the_start(tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    record = ExitFile(folder)
    assert sum(path.stat().st_blocks * 512 for path in tmp_path.iterdir()) >= 2 * BLOCK
    record.close()
    os.close(folder)
    assert list(tmp_path.iterdir()) == []


def test_reading_an_exit(tmp_path: Path) -> None:
    (tmp_path / "exit.json").write_text(json.dumps(EXIT | {"left": [5], "of a later version": True}))
    assert read_exit(str(tmp_path)) == ExitRecord(**EXIT | {"left": (5,)})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        "{}",
        "\xff",
        "[" * 4000,
        json.dumps(EXIT | {"code": "3"}),
        json.dumps(EXIT | {"code": True}),
        json.dumps(EXIT | {"swept": 1}),
        json.dumps(EXIT | {"left": [1, "2"]}),
        json.dumps(EXIT | {"ended_at": float("nan")}),
        json.dumps(EXIT | {"ended_at": float("inf")}),
        json.dumps({name: value for name, value in EXIT.items() if name != "code"}),
        json.dumps(EXIT | {"limit": "x" * 5000}),
    ],
)
def test_what_is_no_record_counts_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "exit.json").write_text(text, encoding="latin-1")
    (tmp_path / "start").write_text(text, encoding="latin-1")
    assert read_exit(tmp_path) is None
    assert read_start(tmp_path) is None


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "exit.json")
    (tmp_path / "start").mkdir()
    assert read_exit(tmp_path) is None
    assert read_start(tmp_path) is None
    assert read_start(tmp_path / "nowhere") is None


def test_whoever_makes_the_start_decides(tmp_path: Path) -> None:
    assert void_start(tmp_path)
    folder = os.open(tmp_path, os.O_RDONLY)
    assert not create_start(folder, void=False, pid=1, ticks=2, boot_id="b", protocol=1)
    os.close(folder)
    start = read_start(tmp_path)
    assert start is not None
    assert (start.void, start.pid, start.boot_id) == (True, os.getpid(), procfs.boot_id())
    assert start.ticks == procfs.start_ticks(os.getpid())
    assert start.protocol == KEEPER_PROTOCOL
    assert [path.name for path in tmp_path.iterdir()] == ["start"]
    with pytest.raises(FileNotFoundError):
        void_start(tmp_path / "nowhere")


def test_what_a_killed_keeper_had_set_aside_is_removed_and_nothing_else(tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    ExitFile(folder).write(exit_fields(ended_at=1.0))
    create_start(folder, void=False, pid=9, ticks=1, boot_id="b", protocol=1)
    os.close(folder)
    (tmp_path / "start.9").touch()
    (tmp_path / "stdout.log.1").touch()
    (tmp_path / "start.made-by-an-agent").mkdir()
    assert (tmp_path / "exit.json.2").exists()
    remove_drafts(tmp_path)
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"start", "exit.json", "stdout.log.1", "start.made-by-an-agent"}
    remove_drafts(tmp_path / "missing")


def test_a_record_that_cannot_be_read_just_now_is_not_taken_for_none(tmp_path: Path) -> None:
    (tmp_path / "exit.json").write_text("{}")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = [os.open("/dev/null", os.O_RDONLY)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (used[0] + 1, hard))
    try:
        with pytest.raises(BusyError):
            read_exit(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        os.close(used[0])
    assert read_exit(tmp_path) is None
