"""A stage on which keepers are tried for real: folders of a run, plans with short limits, and a clean floor after."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import anyio

from tower.core.launch import ExitRecord, KeeperPlan, Limits
from tower.system import procfs
from tower.system.keeperlink import KeeperLink, Word
from tower.system.keeping import start_keeper
from tower.system.runlog import LARGEST_PAGE, read_log
from tower.system.runrecords import read_exit
from tower.system.survivors import survivors

LIMITS = Limits(timeout=20, stall=None, first_output=None, grace=5, linger=0.3, orphan=0)


class Stage:
    """One state folder, with as many runs as a test starts."""

    def __init__(self, root: Path) -> None:
        self.sockets = root / "k"
        self.sockets.mkdir()
        self.root = root
        self.runs: list[str] = []
        self.keepers: list[KeeperLink] = []

    def folder(self, run: str) -> Path:
        return self.root / run

    def plan(self, *argv: str, payload: str | bytes | None = "the payload\n", **changes: object) -> KeeperPlan:
        """A run in a folder of its own. `changes` are fields of the plan or of its limits."""
        run = f"run_{os.getpid()}{time.monotonic_ns()}"
        self.runs.append(run)
        folder = self.folder(run)
        folder.mkdir()
        if payload is not None:
            (folder / "payload.md").write_bytes(payload.encode() if isinstance(payload, str) else payload)
        limits = {name: changes.pop(name) for name in list(changes) if hasattr(LIMITS, name)}
        plan = KeeperPlan(
            run=run,
            folder=str(folder),
            socket_dir=str(self.sockets),
            socket_name=run.partition("_")[2],
            argv=argv,
            env={"PATH": os.defpath, "LAYOVER_RUN_ID": run},
            cwd=str(self.root),
            umask=0o022,
            limits=replace(LIMITS, **limits),  # type: ignore[arg-type]
            max_log_bytes=256 << 20,
            stop_signal=signal.SIGTERM,
        )
        return replace(plan, **changes)  # type: ignore[arg-type]

    def sh(self, script: str, **changes: object) -> KeeperPlan:
        return self.plan("sh", "-c", script, **changes)  # type: ignore[arg-type]

    def python(self, script: str, **changes: object) -> KeeperPlan:
        return self.plan(sys.executable, "-I", "-S", "-c", script, **changes)  # type: ignore[arg-type]

    async def start(self, plan: KeeperPlan) -> KeeperLink:
        link = await start_keeper(plan)
        self.keepers.append(link)
        return link

    async def run(self, plan: KeeperPlan) -> ExitRecord:
        """Start it and wait for its end."""
        return await self.end(await self.start(plan))

    async def end(self, link: KeeperLink) -> ExitRecord:
        await self.words(link)
        return self.exit(link)

    async def words(self, link: KeeperLink) -> list[Word]:
        """All words until the keeper is gone."""
        heard = [word async for word in link.words()]
        await link.aclose()
        return heard

    def exit(self, link: KeeperLink) -> ExitRecord:
        record = read_exit(self.folder(link.run))
        assert record is not None
        return record

    def log(self, run: str, stream: str = "stdout") -> bytes:
        """A log as a reader sees it, gaps left out."""
        pieces: list[bytes] = []
        offset = 0
        while (page := read_log(self.folder(run), stream, offset, LARGEST_PAGE)).data:
            pieces.append(page.data)
            offset = page.next_offset
        return b"".join(pieces)

    async def printed(self, run: str, text: bytes) -> None:
        """Wait until the program has printed this."""
        await until(lambda: text in self.log(run))

    def alive(self) -> dict[int, int]:
        """What is alive of all runs, keepers not counted."""
        return {pid: ticks for run in self.runs for pid, ticks in survivors(run).items()}

    def clear(self) -> None:
        for link in self.keepers:
            link._socket.close()
            if link.is_alive:
                os.kill(link.pid, signal.SIGKILL)
        for pid in self.alive():
            os.kill(pid, signal.SIGKILL)


async def until(condition: Callable[[], object], seconds: float = 10.0) -> None:
    """Wait for what a test expects to become true, and fail when it does not."""
    with anyio.fail_after(seconds):
        while not condition():  # noqa: ASYNC110 - what is waited for is another process's doing
            await anyio.sleep(0.01)


def is_running(pid: int) -> bool:
    return procfs.start_ticks(pid) is not None and not procfs.is_zombie(pid)


def is_stopped(pid: int) -> bool:
    try:
        return b"State:\tT" in Path(f"/proc/{pid}/status").read_bytes()
    except OSError:
        return False
