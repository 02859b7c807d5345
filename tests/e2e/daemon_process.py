"""A real daemon as a process, in a factory and a git repository of its own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from tower.client.api import Api
from tower.system import procfs

T = TypeVar("T")

PATIENCE = 20.0
"""Seconds that a test waits for an event before it says that it did not come."""


def eventually(look: Callable[[], T], *, seconds: float = PATIENCE, pause: float = 0.02) -> T:
    """What `look` returns once it is true; fails the test when that takes too long."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < deadline, f"it did not happen within {seconds} s"
        time.sleep(pause)
    return found


class Daemon:
    """One factory folder, and the tower that serves it, started and killed as a test wants."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tree = folder / "workspace"
        self.state = folder / ".layover"
        self.config = folder / "layover.toml"
        self.environ = {name: os.environ[name] for name in ("PATH", "HOME", "PYTHONPATH") if name in os.environ}
        self.process: subprocess.Popen[bytes] | None = None
        self.log = folder / "daemon.log"
        self.sandbox = "off"
        """Of the agents that do not say: programs of tests leave marks anywhere."""

    def configure(self, agents: str, *, defaults: str = "", layover: str = "") -> None:
        """Write the configuration file."""
        defaults += f'\nsandbox = "{self.sandbox}"'
        text = f'[layover]\nwork_dir = "workspace"\nmin_free_mb = 1\n{layover}\n[defaults]\n{defaults}\n{agents}\n'
        new = self.config.with_suffix(".new")
        new.write_text(text)
        new.rename(self.config)

    def repository(self) -> None:
        """Make the live tree a git repository with one commit."""
        self.tree.mkdir()
        (self.tree / "readme.txt").write_text("committed\n")
        for command in (
            ["init", "-q", "-b", "main"],
            ["add", "."],
            ["-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-qm", "first"],
        ):
            subprocess.run(["git", "-C", str(self.tree), *command], check=True)

    def start(self, *, environ: Mapping[str, str] | None = None, cgroup: Path | None = None) -> None:
        """Start the tower, in a control group if one is named, and return when it says that it is ready."""
        inside = ["sh", "-c", 'echo $$ > "$0/cgroup.procs"; exec "$@"', str(cgroup)] if cgroup else []
        path = self.folder / "n"
        path.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notices:
            notices.bind(str(path))
            notices.settimeout(0.2)
            with self.log.open("ab") as log:
                self.process = subprocess.Popen(
                    [*inside, sys.executable, "-m", "tower", "serve", "--config", str(self.config)],
                    env=self.environ | {"NOTIFY_SOCKET": str(path)} | dict(environ or {}),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                )
            deadline = time.monotonic() + PATIENCE
            while time.monotonic() < deadline:
                assert self.process.poll() is None, self.log.read_text()
                try:
                    if b"READY=1" in notices.recv(4096):
                        return
                except TimeoutError:
                    continue
            raise AssertionError(f"the tower did not become ready:\n{self.log.read_text()}")

    def kill(self) -> None:
        """SIGKILL, as a crash would."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Ask the tower to end and return its exit code."""
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)

    @property
    def api(self) -> Api:
        """A client of this tower, as a person."""
        return Api(str(self.state / "tower.sock"), {}, None)

    def tower(self, *arguments: str, stdin: str | None = None, check: bool = False) -> subprocess.CompletedProcess[str]:
        """The command line, run from the factory's folder."""
        return subprocess.run(
            [sys.executable, "-m", "tower", *arguments],
            cwd=self.folder,
            env=self.environ,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=check,
        )

    def send(self, to: str, body: str = "go", **more: Any) -> dict[str, Any]:
        """Send a flight and return its document."""
        flight: dict[str, Any] = self.api.post("/flights", {"to": to, "body": body, **more})["flight"]
        return flight

    def flight(self, identity: str) -> dict[str, Any]:
        """A flight with its runs."""
        return self.api.get(f"/flights/{identity}")

    def landed(self, identity: str) -> dict[str, Any]:
        """The flight once it is over."""
        over = {"landed", "dead", "halted", "cancelled", "refused"}
        return self.until(identity, lambda flight: flight["state"] in over)

    def until(self, identity: str, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The flight once something is true of it."""

        def look() -> dict[str, Any] | None:
            flight = self.flight(identity)
            return flight if holds(flight) else None

        return eventually(look)

    def last_run(self, identity: str) -> dict[str, Any]:
        """The newest run of a flight."""
        run: dict[str, Any] = self.flight(identity)["runs"][-1]
        return run

    def answer(self, run: str) -> str:
        """What a run answered."""
        return self.api.read(f"/runs/{run}/answer").body.decode()

    def payload(self, run: str) -> str:
        """What a run was told."""
        return self.api.read(f"/runs/{run}/payload").body.decode()

    def processes(self) -> list[int]:
        """Every live process of any run of this factory, keepers left out."""
        mark = b"LAYOVER_SOCKET=" + str(self.state / "door/runs.sock").encode()
        return [pid for pid in procfs.processes() if mark in procfs.environ(pid) and not procfs.is_zombie(pid)]

    def keepers(self) -> list[int]:
        """Every keeper of this factory."""
        folder = str(self.state / "k")
        return [
            pid for pid in procfs.processes() if folder in (procfs.cmdline(pid) or []) and not procfs.is_zombie(pid)
        ]

    def clean_up(self) -> None:
        """Leave nothing behind, whatever the test did."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for pid in [*self.keepers(), *self.processes()]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
