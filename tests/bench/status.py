"""CPU of `tower status` from the shell, beside an interpreter that does nothing."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from . import machine, served
from .table import Row, compared

ROUNDS: Final = 25
AT_MOST: Final = 6.0

AGENT: Final = '[agents.some]\nrunner = "cmd:true"\nprompt = "Succeed."\nentry = true\n'


def measure(*, tiny: bool = False) -> list[Row]:
    """User and system time of whole processes; byte code is there after the first, which does not count."""
    script = Path(sys.executable).with_name("tower")
    command = [str(script)] if script.exists() else [sys.executable, "-m", "tower"]
    ours: list[float] = []
    theirs: list[float] = []
    with machine.folder() as folder, served.tower(folder, AGENT):
        status = [*command, "status"]
        nothing = [sys.executable, "-c", "pass"]
        _milliseconds(status, folder)
        for _ in range(1 if tiny else ROUNDS):
            ours.append(_milliseconds(status, folder))
            theirs.append(_milliseconds(nothing, folder))
    return [compared("tower status, CPU", ours, theirs, unit="ms", reference="python -c pass", at_most=AT_MOST)]


def _milliseconds(command: Sequence[str], folder: Path) -> float:
    before = _children()
    subprocess.run(command, cwd=folder, env=_environ(), check=True, stdout=subprocess.DEVNULL)
    return (_children() - before) * 1e3


def _environ() -> dict[str, str]:
    """Without what would have the byte code made anew each time, and with this tower wherever it is run from."""
    left = {"PYTHONDONTWRITEBYTECODE", "PYTHONPROFILEIMPORTTIME", "LAYOVER_SOCKET", "LAYOVER_RUN_TOKEN"}
    environ = {name: value for name, value in os.environ.items() if name not in left}
    return environ | {"PYTHONPATH": str(Path(__file__).parents[2])}


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
