"""One outside command, run to its end or to the end of our patience; nothing of it is waited for longer."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence

import anyio


async def run_bounded(argv: Sequence[str], *, given: bytes, env: Mapping[str, str], seconds: float) -> str | None:
    """Run a command with `given` on its standard input, for at most `seconds`; its output is dropped.

    Returns what went wrong in words, or None. When it has ended, its time is over, or this is cancelled, the processes
    of its session are killed.
    """
    try:
        process = _start(argv, given, env)
    except OSError as error:
        return f"it cannot be started: {error.strerror}"
    with process:
        try:
            watch = os.pidfd_open(process.pid)
            try:
                with anyio.move_on_after(seconds) as patience:
                    await anyio.wait_readable(watch)
            finally:
                os.close(watch)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    if patience.cancelled_caught:
        return f"it took longer than {seconds:g} s"
    return None if process.returncode == 0 else f"it ended with exit code {process.returncode}"


def _start(argv: Sequence[str], given: bytes, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start it on a file in memory, so that nobody has to feed a pipe. Popen in place costs less than a hop."""
    told = os.memfd_create("told", os.MFD_CLOEXEC)
    try:
        os.write(told, given)
        os.lseek(told, 0, os.SEEK_SET)
        return subprocess.Popen(
            list(argv),
            stdin=told,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=dict(env),
            cwd="/",
            start_new_session=True,
        )
    finally:
        os.close(told)
