"""Verbs on runs: list, show, cancel, recover, and what they were told, printed and answered."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final

import anyio
import anyio.to_thread

from tower.control import views
from tower.control.cancelling import end_waiting
from tower.control.rights import require_person
from tower.core.callers import Caller
from tower.core.errors import ConflictError, InvalidError, NotFoundError
from tower.core.launch import WRITTEN
from tower.core.records import Process, Run
from tower.core.states import RunState
from tower.engine import again, conduct, joins, trees
from tower.engine.tower import Tower
from tower.store import accounts, flights, lookup, runs
from tower.store.database import Connection
from tower.system.files import read_regular
from tower.system.runlog import log_size, read_log
from tower.system.treestore import Form, difference

STREAMS: Final = ("stdout", "stderr")
PAGE_BYTES: Final = 1 << 20
"""The largest page of a log that one answer carries."""

TEXT_BYTES: Final = 16 << 20
"""A payload is bounded by the body limit and the prompt limits; this only guards the daemon's memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPage:
    """A page of a run's output. `offset` is where it begins (a dropped middle is skipped)."""

    data: bytes
    offset: int
    next_offset: int
    ended: bool
    """The run is over and nothing follows this page."""


@dataclass(frozen=True, slots=True)
class RunVerbs:
    """What can be done with runs."""

    tower: Tower

    async def listing(self, caller: Caller, *, every: bool, agent: str | None, limit: int) -> views.View:
        """Runs, newest first: those alive, or all."""
        require_person(caller, "list runs")

        def read(connection: Connection) -> list[views.View]:
            return views_of(
                connection, runs.listing(connection, every=every, agent=agent, limit=limit), self.tower.clock()
            )

        return {"runs": await self.tower.store.read(read)}

    async def show(self, caller: Caller, text: str) -> views.View:
        """One run."""
        require_person(caller, "show a run")

        def read(connection: Connection) -> views.View:
            _, identity = lookup.find(connection, text, kind="run")
            run = runs.get(connection, identity)
            assert run is not None  # noqa: S101 (found in the same view of the database)
            return _view(connection, run, self.tower.clock())

        return await self.tower.store.read(read)

    async def cancel(self, caller: Caller, text: str) -> views.View:
        """Ask a run to end; answered at once, while it ends. Of one that is over, what waits to go on is cancelled.

        Raises `ConflictError` when there is neither.
        """
        require_person(caller, "cancel a run")
        run, process = await self._find(text)
        live = self.tower.live.get(run.id)
        if live is not None:
            await conduct.stop(self.tower, live, "cancelled")
        elif not await self.tower.store.write(partial(self._cancel_what_follows, run, caller.name)):
            raise ConflictError("over", f"cannot cancel run {run.id}: it is over", "there is nothing to end")
        self.tower.wake()
        return views.run(run, process, now=self.tower.clock())

    async def recover(self, caller: Caller, text: str, *, note: str | None, force: bool) -> views.View:
        """Start the interrupted work of a run again, on a person's word."""
        require_person(caller, "recover a run")
        run, _ = await self._find(text)
        flight = await again.by_a_person(self.tower, run, person=caller.name, note=note, force=force)
        return views.flight(flight)

    async def recover_halted(self, caller: Caller) -> views.View:
        """Start again everything that ground stops ended."""
        require_person(caller, "recover what was halted")
        return {"recovered": await again.all_halted(self.tower, person=caller.name)}

    async def log(self, caller: Caller, text: str, *, stream: str, offset: int, limit: int, wait: float) -> LogPage:
        """A page of what a run printed, from a logical offset (negative: from the end).

        With `wait` (seconds) an empty page is held back until something comes or the run ends.
        """
        require_person(caller, "read a log")
        if stream not in STREAMS:
            raise InvalidError("stream", f"cannot read the stream {stream!r}", f"there are {' and '.join(STREAMS)}")
        run, process = await self._find(text)
        limit = max(1, min(limit, PAGE_BYTES))
        with anyio.move_on_after(max(0.0, wait)):
            while True:
                with self.tower.bus.listening(run.id) as grown:
                    alive = run.id in self.tower.live
                    page = await self._page(run, process, stream, offset, limit, alive)
                    if page.data or not alive:
                        return page
                    await grown.wait()
                    run, process = await self._find(run.id)
        return await self._page(run, process, stream, offset, limit, run.id in self.tower.live)

    async def diff(self, caller: Caller, text: str, form: str) -> bytes:
        """What a writer's run changed in its live tree; of one that is alive, what it has changed so far.

        Raises `ConflictError` for a run that has no such tree.
        """
        require_person(caller, "read a diff")
        run, _ = await self._find(text)
        after = run.tree_after
        if run.tree_before is not None and after is None and run.state is not RunState.ENDED:
            after, _ = await trees.name_after(self.tower, run)
        if run.workspace_kind not in WRITTEN or run.tree_before is None or after is None:
            raise ConflictError("no-diff", f"cannot show what run {run.id} changed: {_why_unnamed(run)}")
        store = str(self.tower.state.trees)
        return await anyio.to_thread.run_sync(partial(difference, store, run.tree_before, after, Form(form)))

    async def payload(self, caller: Caller, text: str) -> str:
        """What the run was told."""
        return await self._text(caller, text, "payload.md")

    async def answer(self, caller: Caller, text: str) -> str:
        """What the run answered."""
        return await self._text(caller, text, "answer.txt")

    def _cancel_what_follows(self, run: Run, person: str, connection: Connection) -> bool:
        """Cancel the flights of a run that is over and would get another one; returns whether there were any."""
        told = [flight for flight in flights.of_run(connection, run.id) if flight.follows_run == run.id]
        cancelled = [end_waiting(self.tower, connection, flight, person=person) for flight in told]
        joins.look(self.tower, connection, run.itinerary)
        return any(cancelled)

    async def _page(self, run: Run, process: Process, stream: str, offset: int, limit: int, alive: bool) -> LogPage:
        """Offsets of a turn count from where its part of the process's output begins."""

        def read() -> LogPage:
            folder = process.folder
            begin, end = (run.out_from, run.out_to) if stream == "stdout" else (run.err_from, run.err_to)
            begin, end = begin or 0, log_size(folder, stream) if end is None else end
            at = max(begin, end + offset) if offset < 0 else begin + offset
            chunk = read_log(folder, stream, at, max(0, min(limit, end - at)))
            reached = chunk.next_offset
            if run.turn is not None and run.out_from is None:
                return LogPage(data=b"", offset=0, next_offset=0, ended=not alive)
            ended = not alive and reached >= end
            return LogPage(data=chunk.data, offset=chunk.offset - begin, next_offset=reached - begin, ended=ended)

        return await anyio.to_thread.run_sync(read)

    async def _text(self, caller: Caller, text: str, name: str) -> str:
        require_person(caller, f"read {name}")
        run, _ = await self._find(text)
        folder = self.tower.state.run_folder(run.agent, run.id)
        raw = await anyio.to_thread.run_sync(read_regular, folder / name, TEXT_BYTES)
        if raw is None:
            raise NotFoundError(
                "no-file", f"cannot show {name} of run {run.id}: there is none", "it may not have come that far"
            )
        return raw.decode(errors="replace")

    async def _find(self, text: str) -> tuple[Run, Process]:
        def read(connection: Connection) -> tuple[Run, Process]:
            _, identity = lookup.find(connection, text, kind="run")
            run = runs.get(connection, identity)
            process = runs.process(connection, run.process) if run else None
            assert run is not None  # noqa: S101 (found in the same view of the database)
            assert process is not None  # noqa: S101 (a foreign key of the run)
            return run, process

        return await self.tower.store.read(read)


def _why_unnamed(run: Run) -> str:
    if run.workspace_kind is None:
        return "it has no place to work"
    if run.workspace_kind not in WRITTEN:
        return "it worked in a snapshot, and nothing of that is kept"
    return f"the tree was not named before and after it; `tower show {run.id}` says why if there is a reason"


def views_of(connection: Connection, found: Iterable[Run], now: float) -> list[views.View]:
    """Views of runs with their processes."""
    return [_view(connection, run, now) for run in found]


def _view(connection: Connection, run: Run, now: float) -> views.View:
    report = accounts.report(connection, run.id)
    process = runs.process(connection, run.process)
    return views.run(run, process, now=now, headline=report.headline if report else None)
