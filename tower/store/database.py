"""The database: one thread owns the writing connection, and commits are shared.

An operation is a plain function over a `Connection`. Operations that wait at the same moment run in one
transaction, each under a savepoint of its own, and are answered after that transaction is on disk
(WAL with `synchronous=FULL`: NORMAL loses every acknowledged message in a power cut). What operations do is left
to the other modules of this package; the schema to `migrations`.
"""

from __future__ import annotations

import contextlib
import queue
import sqlite3
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread

from tower.core.errors import BusyError, TowerError
from tower.core.records import Event
from tower.store.migrations import migrate

T = TypeVar("T")

BATCH: Final = 256
"""Operations that share one commit at most: beyond it the flush no longer dominates."""

READERS: Final = 4
"""Reading connections; SQLite readers never wait for the writer under WAL."""

DISK_FULL: Final = "disk-full"
"""Code of the error when there is no room for a commit."""

BUSY_MS: Final = 5_000
"""How long a connection waits for another process's lock (a backup, a curious `sqlite3`)."""


class Connection(sqlite3.Connection):
    """A connection that remembers the events appended in the transaction under way."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.pending_events: list[Event] = []


Operation = Callable[[Connection], T]


@dataclass(slots=True, eq=False)
class _Job:
    operation: Operation[Any]
    token: anyio.lowlevel.EventLoopToken
    done: anyio.Event
    result: Any = None
    error: BaseException | None = None


@dataclass(slots=True)
class _Batch:
    jobs: list[_Job] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)


class Store:
    """Durable state. Open it once per state folder, under that folder's lock; `close` it last.

    `inline=True` runs operations in the calling task instead of in threads: for tests on a virtual clock.
    """

    def __init__(self, path: Path, *, inline: bool = False) -> None:
        self._path = path
        self._inline = inline
        self._writer = _connect(path)
        migrate(self._writer, path)
        self._readers: queue.SimpleQueue[Connection] = queue.SimpleQueue()
        for _ in range(1 if inline else READERS):
            self._readers.put(_connect(path, read_only=True))
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._listeners: list[Callable[[list[Event]], None]] = []
        self._thread: threading.Thread | None = None
        if not inline:
            self._thread = threading.Thread(target=self._write_for_ever, name="store-writer", daemon=True)
            self._thread.start()

    def on_commit(self, listener: Callable[[list[Event]], None]) -> None:
        """Have `listener` called in the event loop with the events of each commit, in order."""
        self._listeners.append(listener)

    async def write(self, operation: Operation[T]) -> T:
        """Carry out `operation` and return its result once it is on disk.

        Whatever the operation raises is raised here and undoes that operation alone. Raises `BusyError`
        (code `disk-full` or `store`) when the commit failed: then nothing of it happened.
        A cancelled caller does not undo an operation that is under way.
        """
        job = _Job(operation, anyio.lowlevel.current_token(), anyio.Event())
        if self._inline:
            self._announce(self._run_batch([job]))
        else:
            self._jobs.put(job)
            await job.done.wait()
        if job.error is not None:
            raise job.error
        result: T = job.result
        return result

    async def read(self, operation: Operation[T]) -> T:
        """Run a reading operation beside the writer, over one consistent view. Raises `BusyError`."""
        if self._inline:
            return self._read(operation)
        return await anyio.to_thread.run_sync(self._read, operation)

    async def close(self) -> None:
        """Finish what was handed over, then close; later writes never return. Not to be cancelled."""
        if self._thread is not None:
            self._jobs.put(None)
            # The loop goes on meanwhile: the writer waits for it to hear of the last commit.
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self._thread.join)
        self._writer.close()
        with contextlib.suppress(queue.Empty):
            while True:
                self._readers.get_nowait().close()

    def _read(self, operation: Operation[T]) -> T:
        connection = self._readers.get()
        try:
            connection.execute("BEGIN")
            try:
                return operation(connection)
            finally:
                connection.execute("ROLLBACK")
        except sqlite3.OperationalError as error:
            raise _as_busy(error, "read from") from error
        finally:
            self._readers.put(connection)

    def _write_for_ever(self) -> None:
        ending = False
        while not ending:
            jobs: list[_Job] = []
            job = self._jobs.get()
            while True:
                if job is None:
                    ending = True
                else:
                    jobs.append(job)
                if len(jobs) >= BATCH or ending:
                    break
                try:
                    job = self._jobs.get_nowait()
                except queue.Empty:
                    break
            if jobs:
                batch = self._run_batch(jobs)
                # The loop may be gone already at the very end; then nobody waits either.
                with contextlib.suppress(RuntimeError):
                    anyio.from_thread.run_sync(self._announce, batch, token=jobs[0].token)

    def _run_batch(self, jobs: list[_Job]) -> _Batch:
        writer = self._writer
        writer.pending_events = []
        try:
            writer.execute("BEGIN IMMEDIATE")
            for job in jobs:
                self._run_job(job)
            writer.execute("COMMIT")
        except sqlite3.Error as error:
            with contextlib.suppress(sqlite3.Error):
                if writer.in_transaction:
                    writer.execute("ROLLBACK")
            failure = _as_busy(error)
            for job in jobs:
                job.error = failure
            writer.pending_events = []
        return _Batch(jobs, writer.pending_events)

    def _run_job(self, job: _Job) -> None:
        writer = self._writer
        mark = len(writer.pending_events)
        writer.execute("SAVEPOINT job")
        try:
            job.result = job.operation(writer)
        except Exception as error:
            # A disk that fills up rolls the whole transaction back by itself: then all of the batch failed.
            if isinstance(error, sqlite3.Error) and not writer.in_transaction:
                raise
            job.error = _as_busy(error) if isinstance(error, sqlite3.OperationalError) else error
            del writer.pending_events[mark:]
            writer.execute("ROLLBACK TO job")
        writer.execute("RELEASE job")

    def _announce(self, batch: _Batch) -> None:
        if batch.events:
            for listener in self._listeners:
                listener(batch.events)
        for job in batch.jobs:
            job.done.set()


def _connect(path: Path, *, read_only: bool = False) -> Connection:
    try:
        connection = sqlite3.connect(path, factory=Connection, isolation_level=None, check_same_thread=False)
        connection.row_factory = sqlite3.Row
        connection.execute(f"PRAGMA busy_timeout={BUSY_MS}")
        if read_only:
            connection.execute("PRAGMA query_only=1")
        else:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute("PRAGMA foreign_keys=1")
    except sqlite3.Error as error:
        raise TowerError(
            "store",
            f"cannot open the database {path}: {error}",
            "look whether the state folder is writable, has space, and holds a database of Tower",
        ) from error
    return connection


def _as_busy(error: Exception, what: str = "write to") -> BusyError:
    text = str(error)
    if "full" in text:
        return BusyError(
            DISK_FULL,
            "cannot write to the database: the disk of the state folder is full",
            "free some space; nothing that was acknowledged is lost, and this request was not carried out",
        )
    return BusyError("store", f"cannot {what} the database: {text}", "try again; look at the daemon's log if it lasts")


def rows(connection: Connection, sql: str, arguments: Iterable[Any] = ()) -> list[sqlite3.Row]:
    """All rows of a query."""
    return connection.execute(sql, tuple(arguments)).fetchall()


def row(connection: Connection, sql: str, arguments: Iterable[Any] = ()) -> sqlite3.Row | None:
    """The first row of a query, or None."""
    found: sqlite3.Row | None = connection.execute(sql, tuple(arguments)).fetchone()
    return found
