"""Much output: through a keeper, masked, to the log; and what the tower does meanwhile."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from . import machine, served
from .table import Row, bounded, compared, figure

MIB: Final = 1024
ROUNDS: Final = 3
MOST_TIMES: Final = 5
MOST_PERCENT: Final = 2.0

SECRETS: Final = {f"SECRET_{letter}": f'{letter}"/{letter * 24}' for letter in "ABCD"}
"""Each is looked for as it stands, JSON-escaped and URL-encoded: twelve patterns."""

PROGRAM: Final = """
import os, sys
line = b"%06d the agent thinks about line after line, and says what it thinks of them, at some length\\n"
page = b"".join(line % number for number in range(1 << 20 >> 7))
page += os.environ.get("SECRET_A", "").encode() + b"\\n"
page += b"." * ((1 << 20) - len(page) - 1) + b"\\n"
for _ in range(int(sys.argv[1])):
    sys.stdout.buffer.write(page)
"""


def measure(*, tiny: bool = False) -> list[Row]:
    """Seconds for all of it in turns with a plain file, and the share of a core that the tower takes."""
    mib, rounds = (4, 1) if tiny else (MIB, ROUNDS)
    with machine.folder() as folder:
        program = folder / "floods.py"
        program.write_text(PROGRAM)
        agents = (
            f'[agents.floods]\nrunner = "cmd:exec {sys.executable} {program} {mib}"\nprompt = "Flood."\nentry = true\n'
            f"env_from = {list(SECRETS)}\n"
        )
        ours: list[float] = []
        theirs: list[float] = []
        shares: list[float] = []
        with served.tower(folder, agents, environ=SECRETS) as tower:
            for _ in range(rounds):
                theirs.append(_straight(program, mib, folder / "straight"))
                seconds, share = _kept(tower)
                ours.append(seconds)
                shares.append(share)
    what = f"output: {mib} MiB through a keeper, masked with {len(SECRETS)} secrets, to disk"
    return [
        compared(what, ours, theirs, unit="s", reference="straight to a file", at_most=MOST_TIMES),
        bounded(
            "output: the tower's CPU meanwhile",
            sorted(shares)[len(shares) // 2],
            unit="% of a core",
            under=MOST_PERCENT,
            reference=f"of {figure(sum(ours), 's')} in all",
        ),
    ]


def _kept(tower: served.Served) -> tuple[float, float]:
    """Seconds of a run from its start to its recorded end, its log flushed; percent of a core that the tower took.

    Its end is seen on the disk: a tower that is asked would be busy with answering.
    """
    ended = _exits(tower) + 1
    flight = tower.send("floods")
    before, began = _cpu(tower.process.pid), time.perf_counter()
    served.until(lambda: _exits(tower) == ended)
    share = (_cpu(tower.process.pid) - before) / (time.perf_counter() - began) * 100
    tower.until_quiet()
    (run,) = tower.ask("GET", f"/flights/{flight}")["runs"]
    if run["outcome"] != "succeeded":
        raise RuntimeError(f"the flood did not go well: {run['reason']}")
    return float(run["seconds"]), share


def _exits(tower: served.Served) -> int:
    """Runs that have ended."""
    return sum(1 for _ in (tower.folder / ".layover" / "hangars" / "floods").glob("run_*/exit.json"))


def _cpu(pid: int) -> float:
    """Seconds of a process, threads that have ended included."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _straight(program: Path, mib: int, path: Path) -> float:
    """The same program on a file, which is flushed at the end as a log is."""
    began = time.perf_counter()
    with path.open("wb") as file:
        subprocess.run([sys.executable, program, str(mib)], stdout=file, check=True)
        os.fdatasync(file.fileno())
    seconds = time.perf_counter() - began
    path.unlink()
    return seconds
