"""The database: durable, shared commits, one failing operation alone undone, full disks survived."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from tower.core.errors import BusyError, TowerError
from tower.core.records import Event
from tower.store import events, generations
from tower.store.database import Connection, Store
from tower.store.migrations import steps

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return request.param


def record(digest: str):
    return lambda connection: generations.record(connection, digest=digest, path="/f", at=1.0)


async def test_what_was_written_is_there_after_reopening(tmp_path: Path) -> None:
    store = Store(tmp_path / "t.db")
    assert await store.write(record("a")) == 1
    await store.close()
    again = Store(tmp_path / "t.db")
    assert await again.write(record("a")) == 1
    assert await again.write(record("b")) == 2
    await again.close()


async def test_the_database_is_in_wal_mode_with_full_synchronous(tmp_path: Path) -> None:
    store = Store(tmp_path / "t.db")
    modes = await store.write(
        lambda c: (c.execute("PRAGMA journal_mode").fetchone()[0], c.execute("PRAGMA synchronous").fetchone()[0])
    )
    assert modes == ("wal", 2)
    await store.close()


async def test_writers_that_wait_together_share_commits_and_all_are_answered(tmp_path: Path) -> None:
    store = Store(tmp_path / "t.db")
    commits = 0

    def count(_: list[Event]) -> None:
        nonlocal commits
        commits += 1

    store.on_commit(count)

    async def one(number: int) -> None:
        await store.write(lambda c: events.append(c, Event(type=f"t{number}", at=1.0)))

    async with anyio.create_task_group() as group:
        for number in range(200):
            group.start_soon(one, number)
    written = await store.read(lambda c: events.after(c, 0))
    assert sorted(event.type for event in written) == sorted(f"t{n}" for n in range(200))
    assert [event.seq for event in written] == list(range(1, 201))
    assert commits < 100
    await store.close()


async def test_an_operation_that_raises_is_undone_alone(tmp_path: Path) -> None:
    store = Store(tmp_path / "t.db")
    told: list[str] = []
    store.on_commit(lambda batch: told.extend(event.type for event in batch))

    def bad(connection):
        events.append(connection, Event(type="bad", at=1.0))
        raise ValueError("no")

    results: list[str] = []

    async def attempt(operation, name: str) -> None:
        try:
            await store.write(operation)
            results.append(name)
        except ValueError:
            results.append(f"{name} raised")

    async with anyio.create_task_group() as group:
        group.start_soon(attempt, lambda c: events.append(c, Event(type="one", at=1.0)), "one")
        group.start_soon(attempt, bad, "bad")
        group.start_soon(attempt, lambda c: events.append(c, Event(type="two", at=1.0)), "two")
    assert sorted(results) == ["bad raised", "one", "two"]
    assert sorted(told) == ["one", "two"]
    assert len(await store.read(lambda c: events.after(c, 0))) == 2
    await store.close()


async def test_a_full_disk_fails_the_request_and_the_store_goes_on_when_space_returns(tmp_path: Path) -> None:
    store = Store(tmp_path / "t.db")
    await store.write(record("a"))
    pages = await store.write(lambda c: c.execute("PRAGMA page_count").fetchone()[0])
    await store.write(lambda c: c.execute(f"PRAGMA max_page_count = {pages}").fetchone())
    with pytest.raises(BusyError) as caught:
        await store.write(lambda c: events.append(c, Event(type="x", at=1.0, data={"text": "y" * 100_000})))
    assert caught.value.code == "disk-full"
    await store.write(lambda c: c.execute("PRAGMA max_page_count = 1000000").fetchone())
    await store.write(lambda c: events.append(c, Event(type="x", at=1.0)))
    assert [event.type for event in await store.read(lambda c: events.after(c, 0))] == ["x"]
    await store.close()


async def test_readers_do_not_see_a_transaction_under_way_and_cannot_write(tmp_path: Path) -> None:
    store = Store(tmp_path / "t.db")
    with pytest.raises(BusyError, match="cannot read from the database"):
        await store.read(record("a"))
    assert await store.write(record("a")) == 1
    await store.close()


async def test_what_is_under_way_at_the_end_is_finished_and_answered_however_the_waiting_ends(tmp_path: Path) -> None:
    store = Store(tmp_path / "t.db")
    begun, go_on = threading.Event(), threading.Event()
    heard: list[Event] = []
    store.on_commit(heard.extend)

    def slow(connection: Connection) -> None:
        events.append(connection, Event(type="last", at=1.0))
        begun.set()
        go_on.wait()

    async with anyio.create_task_group() as group:
        group.start_soon(store.write, slow)
        await anyio.to_thread.run_sync(begun.wait)
        # As at a stop: nobody waits for it any more, and it is on its way to the disk.
        group.cancel_scope.cancel()
        go_on.set()
        await store.close()
    assert [event.type for event in heard] == ["last"]


async def test_inline_mode_needs_no_thread(tmp_path: Path) -> None:
    store = Store(tmp_path / "t.db", inline=True)
    assert await store.write(record("a")) == 1
    assert await store.read(lambda c: c.execute("SELECT count(*) FROM generations").fetchone()[0]) == 1
    await store.close()


async def test_a_database_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    await Store(path).close()
    newest = steps()[-1][0]
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {newest + 1}")
    connection.close()
    with pytest.raises(TowerError) as caught:
        Store(path)
    assert caught.value.code == "newer-state"


@pytest.mark.parametrize("content", [b"this is no database, and longer than a header of SQLite" * 40, b"\0" * 4096])
async def test_a_file_that_is_no_database_gets_a_sentence(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "t.db"
    path.write_bytes(content)
    with pytest.raises(TowerError) as caught:
        Store(path)
    assert str(path) in caught.value.sentence
