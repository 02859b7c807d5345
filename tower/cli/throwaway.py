"""A factory that lives as long as a demonstration: its folder, and a tower that serves it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

import tower
from tower.cli import exits, scaffold
from tower.client.api import Api
from tower.client.wire import SUN_PATH_BYTES
from tower.core.errors import TowerError, UnreachableError
from tower.system import prctl

SOCKET: Final = ".layover/tower.sock"
START_SECONDS: Final = 20.0
STOP_SECONDS: Final = 10.0
"""Beyond the pause that a tower grants its runs; there are none left by then."""

LOG: Final = "tower.log"

IMPORT_PATH: Final = os.pathsep.join(
    [str(Path(tower.__file__).resolve().parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
)
"""Where this very package is imported from, installed or not."""

_ANOTHER_TOWER: Final = ("TOWER_", "LAYOVER_", "LISTEN_", "WATCHDOG_", "NOTIFY_")
_FOLDERS_OF_A_SERVICE: Final = frozenset(
    {"STATE_DIRECTORY", "RUNTIME_DIRECTORY", "CACHE_DIRECTORY", "CREDENTIALS_DIRECTORY", "CONFIGURATION_DIRECTORY"}
)


@contextmanager
def folder(*, keep: bool, values: dict[str, str]) -> Iterator[Path]:
    """A new folder with the demonstration's factory and its repository; removed at the end unless it is to be kept."""
    place = Path(tempfile.mkdtemp(prefix="tower-demo-", dir=_base())).resolve()
    try:
        scaffold.write("demo", scaffold.files("demo"), place, values)
        scaffold.make_repository(place / "workspace", "A first line")
        yield place
    finally:
        if not keep:
            shutil.rmtree(place, ignore_errors=True)


def _base() -> str:
    """`$TMPDIR`, unless a socket in it would have too long a path."""
    base = tempfile.gettempdir()
    fits = len(os.fsencode(f"{base}/tower-demo-12345678/{SOCKET}")) <= SUN_PATH_BYTES
    return base if fits else "/tmp"  # noqa: S108 - mkdtemp makes a private folder in it


@contextmanager
def served(place: Path) -> Iterator[Api]:
    """A tower that serves the factory in `place`, until the end. Raises `TowerError` when it does not start."""
    # Told to go, we take our tower with us.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    environ = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(_ANOTHER_TOWER) and name not in _FOLDERS_OF_A_SERVICE
    }
    with (place / LOG).open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "tower", "serve", "--config", str(place / "layover.toml")],
            cwd=place,
            env=environ | {"PYTHONPATH": IMPORT_PATH},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            # Ctrl-C is for the demonstration, which then ends its tower in order.
            start_new_session=True,
            # Killed, it can end nothing any more; its tower then ends by itself.
            preexec_fn=partial(_end_with, os.getpid()),  # noqa: PLW1509 - there is one thread
        )
    try:
        api = Api(str(place / SOCKET), {}, str(place))
        _wait_until_it_answers(api, process, place)
        yield api
    finally:
        _end(process)


def _end_with(demonstration: int) -> None:
    """Called in the process that becomes the tower."""
    prctl.end_with_parent(signal.SIGTERM)
    if os.getppid() != demonstration:
        os._exit(exits.INTERRUPTED)


def _wait_until_it_answers(api: Api, process: subprocess.Popen[bytes], place: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        with suppress(UnreachableError):
            api.get("/health")
            return
        if process.poll() is not None or time.monotonic() > deadline:
            lines = (place / LOG).read_text(errors="replace").splitlines()[-5:]
            said = "\n  ".join(["it said:", *lines])
            raise TowerError("no-start", "cannot start a tower for the demonstration", said)
        time.sleep(0.02)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
