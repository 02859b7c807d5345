"""Evidence: what is left of a run or a process that is over, found and read. Judging it is `core.outcome`'s."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tower.core.errors import BusyError
from tower.core.evidence import Evidence, Reading
from tower.core.launch import StartRecord
from tower.core.records import Process
from tower.core.states import Interruption
from tower.engine.tower import LiveRun, Tower, log
from tower.runners import closes_with_a_record, of, recognised
from tower.system.files import read_regular
from tower.system.procfs import boot_id
from tower.system.runlog import bytes_cut, read_log
from tower.system.runrecords import read_exit, read_start, remove_drafts
from tower.system.survivors import end_survivors

ANSWER_BYTES: Final = 1 << 20
"""How much of the end of the output is read for the answer and the last error line."""

RECORD_BYTES: Final = 4 << 20
"""How much of it is read where a result record is looked for: one line, with the largest answer escaped in it."""

REPORT_BYTES: Final = 64 << 10
"""A usage report is a handful of numbers; what is larger is none."""


async def end_what_is_left(tower: Tower, marker: str, process: Process) -> tuple[int, ...]:
    """End every process below a keeper that is gone, unless the keeper has seen to that; returns those that would not.

    `marker` is the id that they carry: of the run, or of the resident's process.
    """
    remove_traces(tower, marker, process)
    record = read_exit(process.folder)
    if record is not None and record.swept:
        return ()
    return await end_survivors(marker, session_of(process), process.cgroup)


def remove_traces(tower: Tower, marker: str, process: Process) -> None:
    """Remove what a keeper that was killed could not remove itself, at whatever step that was."""
    remove_drafts(process.folder)
    (tower.state.keepers / marker.partition("_")[2]).unlink(missing_ok=True)


def start_of(process: Process) -> StartRecord | None:
    """Who started it, by the store's record, which no program can write to.

    By its folder's own `start` only when the tower died before it could write that.
    """
    if process.keeper_pid is None or process.keeper_ticks is None or process.boot_id is None:
        return read_start(process.folder)
    return StartRecord(
        void=False,
        pid=process.keeper_pid,
        ticks=process.keeper_ticks,
        boot_id=process.boot_id,
        protocol=process.protocol or 0,
    )


def session_of(process: Process | None) -> tuple[int, int] | None:
    """Pid and start ticks of the agent program, which leads a session of its own; None when it is not of this boot."""
    if process is None or process.pid is None or process.pid_ticks is None or process.boot_id != boot_id():
        return None
    return process.pid, process.pid_ticks


def gather(live: LiveRun, folder: Path, without_exit: Interruption) -> Evidence:
    """All that is known of a run with a process of its own, whose folder this is.

    Raises `BusyError` when a shortage of descriptors or memory keeps any of it from being read.
    """
    out = _output(live, folder)
    err = printed(folder, "stderr", -REPORT_BYTES, REPORT_BYTES, is_evidence=True)
    tails = out[-ANSWER_BYTES:].decode(errors="replace"), err.decode(errors="replace")
    return Evidence(
        exit=read_exit(str(folder)),
        reading=recognised(live.runner, _read(live, folder, out), *reversed(tails)),
        out_tail=tails[0],
        err_tail=tails[1],
        cut=_cut(folder),
        stopping=live.stopping,
        without_exit=without_exit,
        agent=live.agent,
    )


def _cut(folder: Path) -> int:
    try:
        return bytes_cut(folder)
    except OSError as error:
        log.warning("log.unreadable", folder=str(folder), error=str(error))
        return 0


def reading_of(live: LiveRun, folder: Path) -> Reading:
    """What the runner's reader finds in the output of a run so far. Blocks; raises `BusyError` as `gather` does."""
    return _read(live, folder, _output(live, folder))


def _output(live: LiveRun, folder: Path) -> bytes:
    most = RECORD_BYTES if closes_with_a_record(live.runner) else ANSWER_BYTES
    return printed(folder, "stdout", -most, most, is_evidence=True)


def _read(live: LiveRun, folder: Path, out: bytes) -> Reading:
    report = read_regular(folder / "out" / "report", REPORT_BYTES, is_evidence=True)
    return of(live.runner).read(live.runner, out, None if report is None else report.decode(errors="replace"))


def printed(folder: Path, stream: str, offset: int, most: int, *, is_evidence: bool = False) -> bytes:
    """A part of a log; a negative offset counts from its end.

    What a disk does not give back is as if it had not been printed: the exit record still counts.
    Raises `BusyError` for evidence that a shortage keeps from being read.
    """
    try:
        return read_log(str(folder), stream, offset, most).data
    except (BusyError, OSError) as error:
        if is_evidence and isinstance(error, BusyError):
            raise
        log.warning("log.unreadable", folder=str(folder), stream=stream, error=str(error))
        return b""
