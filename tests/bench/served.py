"""A real daemon in a factory of its own, started, asked and ended."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from tower.system import procfs

from .clients import dial

PATIENCE: Final = 120.0
"""Seconds after which what was waited for is not coming."""

FRESH: Final = 5.0
"""Seconds after which a connection is made anew: the tower hangs up on those that are silent for long."""


class Served:
    """A tower that serves; `agents` is the part of the configuration file that a benchmark is about."""

    def __init__(
        self, folder: Path, agents: str, defaults: str, before: Callable[[Path], None], environ: Mapping[str, str]
    ) -> None:
        self.folder = folder
        self.tree = folder / "workspace"
        self.socket = folder / ".layover" / "tower.sock"
        config = folder / "layover.toml"
        config.write_text(
            f'[layover]\nwork_dir = "workspace"\nmin_free_mb = 1\n[defaults]\nsandbox = "off"\n{defaults}\n{agents}\n'
        )
        git = ["git", "-C", str(self.tree), "-c", "user.name=b", "-c", "user.email=b@example.org"]
        self.tree.mkdir()
        subprocess.run([*git, "init", "-q"], check=True)
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "first"], check=True)
        before(folder / ".layover")
        with (folder / "daemon.log").open("wb") as log, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notices:
            notices.bind(str(folder / "n"))
            notices.setblocking(False)
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tower", "serve", "--config", str(config)],
                env={"PATH": os.environ["PATH"], "HOME": str(folder), "NOTIFY_SOCKET": str(folder / "n")}
                | dict(environ),
                cwd=Path(__file__).parents[2],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
            until(lambda: self._has_ended() or _is_ready(notices))
        if self._has_ended():
            raise RuntimeError(f"the tower did not start:\n{(folder / 'daemon.log').read_text()}")
        self._link = _Link(str(self.socket))
        self._asked_at = 0.0

    def ask(self, method: str, path: str, document: dict[str, Any] | None = None) -> dict[str, Any]:
        """One request, over a connection that stays open while one follows another."""
        if time.monotonic() > self._asked_at + FRESH:
            self._link.close()
        self._asked_at = time.monotonic()
        body = None if method == "GET" else json.dumps(document or {})
        self._link.request(method, path, body, {"Content-Type": "application/json"})
        with self._link.getresponse() as reply:
            answer: dict[str, Any] = json.loads(reply.read())
            if reply.status >= 400:
                raise RuntimeError(f"{method} {path}: {answer}")
        return answer

    def send(self, to: str, body: str = "go") -> str:
        """Send a flight; returns its id once it is on disk."""
        return str(self.ask("POST", "/flights", {"to": to, "body": body})["flight"]["id"])

    def until_quiet(self) -> None:
        """Return when no flight waits and no run is alive, looking more often the less there is left."""
        deadline = time.monotonic() + PATIENCE
        while True:
            status = self.ask("GET", "/status")
            left = status["queue"]["queued"] + status["slots"]["used"]
            if not left:
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"{left} flights still wait or run")
            time.sleep(min(0.25, max(0.005, left * 0.001)))

    def keepers(self) -> list[int]:
        """Pids of the keepers of this tower."""
        mark = str(self.folder / ".layover" / "k")
        return [pid for pid in procfs.processes() if mark in (procfs.cmdline(pid) or ())]

    def stop(self) -> None:
        """End what runs, then the tower."""
        self._link.close()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(PATIENCE)

    def _has_ended(self) -> bool:
        return self.process.poll() is not None


class _Link(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("tower", timeout=PATIENCE)
        self._path = path

    def connect(self) -> None:
        self.sock = dial(self._path, PATIENCE)


def _is_ready(notices: socket.socket) -> bool:
    try:
        return b"READY=1" in notices.recv(4096)
    except BlockingIOError:
        return False


def until(holds: Callable[[], bool]) -> None:
    """Return once something is true."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError("what was waited for did not happen")
        time.sleep(0.01)


@contextmanager
def tower(
    folder: Path,
    agents: str,
    *,
    defaults: str = "",
    before: Callable[[Path], None] = lambda _: None,
    environ: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[Served]:
    """A tower for the time of a benchmark; `before` it starts something may be done to its state folder."""
    served = Served(folder, agents, defaults, before, environ)
    try:
        yield served
    finally:
        served.stop()
