"""Verbs on what agents remember: each agent's own memory, and the logbook that all of them share."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import anyio
import anyio.to_thread

from tower.control import views
from tower.control.rights import require_run
from tower.core import notebook
from tower.core.callers import Caller
from tower.core.factory import Agent
from tower.core.fences import tail
from tower.engine.memories import memory_file
from tower.engine.tower import Tower
from tower.system import notebooks


@dataclass(frozen=True, slots=True)
class NoteVerbs:
    """What runs may do with memory and logbook. One writes at a time, so that no entry is lost to another one."""

    tower: Tower
    _writing: anyio.Lock = field(default_factory=anyio.Lock)

    async def memory(self, caller: Caller) -> views.View:
        """The caller's memory: the end of it, at most `notebook.READ_BYTES`."""
        require_run(caller, "read memory")
        raw, total = await anyio.to_thread.run_sync(notebooks.read_end, self._memory(caller), notebook.LOOK_BYTES)
        text = tail(raw, notebook.READ_BYTES)
        return {"text": text, "bytes": total, "cut": len(text.encode()) < total}

    async def remember(self, caller: Caller, text: str) -> views.View:
        """Add an entry to the caller's memory; durable when this returns.

        Raises `InvalidError` for text that says nothing, `BusyError` on a full disk, `RefusedError` for a file that
        cannot be written.
        """
        run = require_run(caller, "write memory")
        kept, is_cut = notebook.cut_entry(self.tower.redaction.apply(text))
        agent = self._agent(caller)
        is_shared = agent is not None and agent.memory is not None
        entry = notebook.entry(kept, at=self.tower.clock(), by=f"{caller.name}, {run}" if is_shared else run)
        path = self._memory(caller)

        def write() -> tuple[int, int]:
            # Twice what the tower keeps: a person may have put in more.
            present, _ = notebooks.read_end(path, 2 * notebook.MEMORY_BYTES)
            after, dropped = notebook.appended(present, entry)
            notebooks.replace(path, after)
            return len(after), dropped

        async with self._writing:
            size, dropped = await anyio.to_thread.run_sync(write)
        return {"bytes": size, "cut": is_cut, "dropped": dropped}

    async def logbook(self, caller: Caller, lines: int) -> views.View:
        """The last lines of the shared logbook, at most `READ_BYTES`."""
        require_run(caller, "read the logbook")
        raw, total = await anyio.to_thread.run_sync(notebooks.read_end, self._logbook, notebook.LOOK_BYTES)
        return {"text": notebook.last_lines(raw, lines, total), "bytes": total}

    async def log(self, caller: Caller, text: str) -> views.View:
        """Add an entry to the shared logbook; durable when this returns. Raises as `remember` does."""
        run = require_run(caller, "write the logbook")
        kept, is_cut = notebook.cut_entry(self.tower.redaction.apply(text))
        entry = notebook.entry(kept, at=self.tower.clock(), by=f"{caller.name}, {run}").encode()
        async with self._writing:
            await anyio.to_thread.run_sync(notebooks.append, self._logbook, entry)
        return {"cut": is_cut}

    def _memory(self, caller: Caller) -> Path:
        agent = self._agent(caller)
        hangars = self.tower.state.hangars
        return memory_file(hangars, agent) if agent else hangars / caller.name / "memory.md"

    def _agent(self, caller: Caller) -> Agent | None:
        """As the run has it, which keeps the generation that it began with."""
        live = self.tower.live.get(caller.run or "")
        return live.agent if live else self.tower.factory.agents.get(caller.name)

    @property
    def _logbook(self) -> Path:
        return Path(self.tower.factory.settings.logbook)
