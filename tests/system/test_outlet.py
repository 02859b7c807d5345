"""A log whose reader stops must cost lines, never the daemon."""

import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tower.system.outlet import Outlet

PIPE_BYTES = 65536


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        try:
            os.close(end)
        except OSError:
            continue


def read_until(descriptor: int, last: bytes) -> bytes:
    data = b""
    while last not in data:
        piece = os.read(descriptor, 1 << 16)
        assert piece, "the pipe ended"
        data += piece
    return data


def test_a_line_is_there_at_once(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    outlet = Outlet(writer)
    assert outlet.write("one\n") == 4
    assert os.read(reader, 100) == b"one\n"
    assert "log-outlet" not in {thread.name for thread in threading.enumerate()}


def test_a_reader_that_is_stopped_holds_nobody_up_and_misses_nothing_that_fits(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    outlet = Outlet(writer)
    began = time.monotonic()
    for number in range(3000):
        outlet.write(f"{number:04} {'x' * 95}\n")
    assert time.monotonic() - began < 5
    assert not outlet.drain(0.01)
    lines = read_until(reader, b"2999").splitlines()
    assert [int(line[:4]) for line in lines] == list(range(3000))
    assert outlet.drain(5)


def test_what_is_too_much_is_counted_and_told(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    outlet = Outlet(writer, backlog=10_000)
    for number in range(2000):
        outlet.write(f"{number:04} {'x' * 95}\n")
    *kept, notice = read_until(reader, b"log.lost").splitlines()
    assert all(len(line) == 100 for line in kept)
    assert PIPE_BYTES <= len(kept) * 101 <= PIPE_BYTES + 3 * 10_000
    assert json.loads(notice) == {"event": "log.lost", "lines": 2000 - len(kept)}
    assert outlet.drain(5)
    outlet.write("again\n")
    assert os.read(reader, 100) == b"again\n"


def test_a_long_line_stays_whole(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    outlet = Outlet(writer, backlog=10)
    outlet.write("a" * 200_000 + "\n")
    outlet.write("lost\n")
    data = read_until(reader, b"log.lost")
    assert data.splitlines()[0] == b"a" * 200_000


def test_writers_in_many_threads_do_not_mix_lines(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    outlet = Outlet(writer)
    threads = [
        threading.Thread(target=lambda name=name: [outlet.write(name * 300 + "\n") for _ in range(200)])
        for name in "abcd"
    ]
    for thread in threads:
        thread.start()
    data = b""
    while data.count(b"\n") < 800:
        data += os.read(reader, 1 << 16)
    for thread in threads:
        thread.join()
    assert set(data.splitlines()) == {name.encode() * 300 for name in "abcd"}


def test_a_reader_that_went_away_is_no_error(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    outlet = Outlet(writer)
    for _ in range(2000):
        outlet.write("x" * 100 + "\n")
    os.close(reader)
    assert outlet.drain(5)
    outlet.write("nobody hears this\n")


def test_a_closed_descriptor_is_no_error(pipe: tuple[int, int]) -> None:
    outlet = Outlet(pipe[1])
    os.close(pipe[1])
    outlet.write("x\n")
    assert outlet.drain(1)


def test_a_full_disk_is_no_error() -> None:
    with Path("/dev/full").open("w") as full:
        Outlet(full.fileno()).write("x\n")


def test_a_descriptor_that_somebody_made_non_blocking(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    os.set_blocking(writer, False)
    outlet = Outlet(writer)
    for number in range(2000):
        outlet.write(f"{number:04} {'x' * 95}\n")
    assert read_until(reader, b"1999").count(b"\n") == 2000


def test_text_that_is_no_utf8(pipe: tuple[int, int]) -> None:
    Outlet(pipe[1]).write("\ud800 ä\n")
    assert os.read(pipe[0], 100) == "\\ud800 ä\n".encode()
