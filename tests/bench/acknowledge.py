"""Flights acknowledged to many clients at a time, beside one flushed append for each message.

The tower drains: what is acknowledged is on disk and stays queued, and no run takes part in the measuring.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

from . import machine, served
from .clients import flight, post_all
from .table import Row, compared

CLIENTS: Final = 32
MESSAGES: Final = 640
ROUNDS: Final = 7
AT_LEAST: Final = 4.0
"""A commit is shared by those who wait at the same moment."""

AGENT: Final = '[agents.later]\nrunner = "cmd:true"\nprompt = "Succeed."\nentry = true\n'


def measure(*, tiny: bool = False) -> list[Row]:
    """Acknowledgements per second, against appends per second in the same folder."""
    rounds, count = (1, CLIENTS) if tiny else (ROUNDS, MESSAGES)
    ours: list[float] = []
    theirs: list[float] = []
    with machine.folder() as folder, served.tower(folder, AGENT) as tower:
        tower.ask("POST", "/drain")
        for turn in range(rounds):
            requests = [flight("later", f"message {turn}/{number}") for number in range(count)]
            ours.append(count / post_all(str(tower.socket), requests, clients=CLIENTS))
            theirs.append(count / _append(folder / ".layover" / "appended", requests))
        queued = tower.ask("GET", "/status")["queue"]["queued"]
        if queued != rounds * count:
            raise RuntimeError(f"{rounds * count} flights were acknowledged and {queued} are queued")
    what = f"acknowledging a send, {CLIENTS} clients, durable"
    return [compared(what, ours, theirs, unit="/s", reference="append and fdatasync each", at_least=AT_LEAST)]


def _append(path: Path, messages: list[bytes]) -> float:
    """Seconds to make each message durable by itself."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        began = time.perf_counter()
        for message in messages:
            os.write(fd, message)
            os.fdatasync(fd)
        return time.perf_counter() - began
    finally:
        os.close(fd)
