"""Evidence: what is left of a run or a process that is over, found and read. Judging it is `core.outcome`'s."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tower.core.outcome import Evidence
from tower.core.records import Process
from tower.core.states import Interruption
from tower.engine.tower import LiveRun, Tower
from tower.runners import of
from tower.system.files import read_regular
from tower.system.procfs import boot_id
from tower.system.runlog import read_log
from tower.system.runrecords import read_exit
from tower.system.survivors import end_survivors

ANSWER_BYTES: Final = 1 << 20
"""How much of the end of the output is read for the answer, the usage and the last error line."""

REPORT_BYTES: Final = 64 << 10
"""A usage report is a handful of numbers; what is larger is none."""


async def end_what_is_left(tower: Tower, marker: str, process: Process) -> tuple[int, ...]:
    """End every process below a keeper that is gone, unless the keeper has seen to that; returns those that would not.

    `marker` is the id that they carry: of the run, or of the resident's process.
    """
    record = read_exit(process.folder)
    if record is not None and record.swept:
        return ()
    left = await end_survivors(marker, session_of(process))
    # A keeper that was killed could not remove its socket.
    (tower.state.keepers / marker.partition("_")[2]).unlink(missing_ok=True)
    return left


def session_of(process: Process | None) -> tuple[int, int] | None:
    """Pid and start ticks of the agent program, which leads a session of its own; None when it is not of this boot."""
    if process is None or process.pid is None or process.pid_ticks is None or process.boot_id != boot_id():
        return None
    return process.pid, process.pid_ticks


def gather(live: LiveRun, folder: Path, without_exit: Interruption) -> Evidence:
    """All that is known of a run with a process of its own, whose folder this is."""
    out = read_log(str(folder), "stdout", -ANSWER_BYTES, ANSWER_BYTES)
    err = read_log(str(folder), "stderr", -REPORT_BYTES, REPORT_BYTES)
    report = read_regular(folder / "out" / "report", REPORT_BYTES)
    reading = of(live.runner).read(live.runner, out.data, None if report is None else report.decode(errors="replace"))
    return Evidence(
        exit=read_exit(str(folder)),
        reading=reading,
        out_tail=out.data.decode(errors="replace"),
        err_tail=err.data.decode(errors="replace"),
        stopping=live.stopping,
        without_exit=without_exit,
    )
