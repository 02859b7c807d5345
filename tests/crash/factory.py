"""The factory that is crashed: two agents along a route, one that writes in the live tree and one in a snapshot.

Owns starting the tower under whatever is to befall it, a client that asks until it is answered, and waiting until the
work is over. What must hold afterwards is `invariants`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from e2e.daemon_process import Daemon

from tower.client.api import Api
from tower.core.errors import TowerError
from tower.system import procfs

AGENT = Path(__file__).with_name("agent.py")

CONFIGURATION = """
[agents.first]
description = "Begins the work and passes it on"
runner = '''{program} second'''
prompt = "Begin."
access = "{access}"
entry = true
max_recovery_attempts = 9
[agents.second]
description = "Ends the work"
runner = '''{program}'''
prompt = "End."
access = "{other}"
max_recovery_attempts = 9
[[routes]]
from = "first"
to = "second"
"""

OTHER = {"read-write": "read-only", "read-only": "read-write"}
OVER = {"landed", "dead", "halted", "cancelled", "refused"}
PATIENCE = 30.0
"""Seconds that one start, or one piece of work, may take."""

KEY = "the-only-one"


class Factory(Daemon):
    """A folder with a repository, a state folder, the world outside, and the tower that serves it."""

    def __init__(self, folder: Path, *, access: str = "read-write", elsewhere: bool = False) -> None:
        super().__init__(folder)
        self.access = access
        if elsewhere:
            self.state = folder / "m" / "s"
        self.nurseries: dict[int, int] = {}
        """Pid and start ticks of every process that forked keepers."""
        self.world = folder / "world"
        self.world.mkdir()
        self.repository()
        self.write_configuration()

    CONFIGURATION = CONFIGURATION
    """Its agents and routes, with places for the program, its command, and for access."""

    def write_configuration(self) -> None:
        command = f"exec {sys.executable} -I -S {AGENT} {self.world}"
        agents = self.CONFIGURATION.format(
            program=f"cmd:{command}", command=command, access=self.access, other=OTHER[self.access]
        )
        self.configure(
            agents,
            defaults='linger_sec = 0.1\nwriters = "shared"',
            layover=f'grace_sec = 1\nstate_dir = "{self.state}"',
        )

    def serve(
        self, *, environ: Mapping[str, str] | None = None, prefix: Sequence[str] = (), seconds: float = PATIENCE
    ) -> bool:
        """Start the tower, if need be under another program; whether it became ready before it ended."""
        path = self.folder / "n"
        path.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notices:
            notices.bind(str(path))
            notices.settimeout(0.1)
            with self.log.open("ab") as log:
                self.process = subprocess.Popen(
                    [*prefix, sys.executable, "-m", "tower", "serve", "--config", str(self.config)],
                    env=self.environ | {"NOTIFY_SOCKET": str(path)} | dict(environ or {}),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                )
            give_up = time.monotonic() + seconds
            while time.monotonic() < give_up:
                with contextlib.suppress(TimeoutError):
                    if b"READY=1" in notices.recv(4096):
                        self.nurseries.update((pid, procfs.start_ticks(pid) or 0) for pid in self.nursery())
                        return True
                if self.process.poll() is not None:
                    return False
        return False

    def must_serve(self, **more: Mapping[str, str]) -> None:
        """Start the tower; raises `AssertionError` with its log when it does not come up."""
        assert self.serve(**more), f"the tower did not become ready:\n{self.log_tail()}"

    def log_tail(self) -> str:
        return self.log.read_text(errors="replace")[-4000:] if self.log.exists() else ""

    @property
    def tower_pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def nursery(self) -> list[int]:
        """The process that forks the tower's keepers."""
        return [pid for pid in procfs.children(self.tower_pid) if any(map(_forks_keepers, procfs.cmdline(pid) or []))]

    def open_gate(self) -> None:
        """Let agents end."""
        (self.world / "gate").touch()

    def diary(self, *kinds: str) -> list[list[str]]:
        """What agents did, in order; each line as its words."""
        path = self.world / "diary"
        lines = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
        return [line for line in lines if not kinds or line[0] in kinds]

    def count(self, condition: str, table: str) -> int:
        """Rows in the database of which something is true."""
        with contextlib.closing(sqlite3.connect(self.state / "tower.db")) as database:
            return int(database.execute(f"SELECT count(*) FROM {table} WHERE {condition}").fetchone()[0])  # noqa: S608

    def wake_stopped(self) -> None:
        """Go on with whoever stopped itself at a point."""
        for pid in [self.tower_pid, *self.keepers()]:
            if is_stopped(pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def hurry(self) -> None:
        """Skip the pauses before a recovery and at a wall: what waits for a time falls due now."""
        try:
            with contextlib.closing(sqlite3.connect(self.state / "tower.db", timeout=5)) as database, database:
                sql = "UPDATE flights SET not_before = NULL WHERE not_before IS NOT NULL AND state = 'queued'"
                changed = database.execute(sql).rowcount
                # These are looked at every few seconds.
                database.execute("UPDATE flights SET release_at = 1 WHERE release_at > 1 AND state = 'held'")
            if changed:
                # Both have the dispatcher look at its queue.
                self.api.post("/drain")
                self.api.delete("/drain")
        except (sqlite3.Error, TowerError):
            return

    def finish(
        self, client: Client, *, seconds: float = PATIENCE, until: Callable[[], bool] = lambda: False
    ) -> str | None:
        """Wait until the client is answered and nothing is left to do; says what it still waited for if it gave up."""
        give_up = time.monotonic() + seconds
        waits_for = "an answer to the send"
        while time.monotonic() < give_up and not until():
            if client.flight is not None:
                self.hurry()
                waits_for = self._unfinished(client.flight)
                if not waits_for:
                    return None
            if self.process is not None and self.process.poll() is not None:
                return f"the tower, which had ended with {self.process.returncode}"
            time.sleep(0.03)
        return waits_for

    def _unfinished(self, flight: str) -> str:
        try:
            itinerary = self.api.get(f"/flights/{flight}")["itinerary"]
            found = self.api.get(f"/itineraries/{itinerary}")
        except TowerError as error:
            return str(error)
        states = {one["to"]: one["state"] for one in found["flights"]}
        open_ones = [f"{to} ({state})" for to, state in states.items() if state not in OVER]
        done = {one["to"] for one in found["flights"] if one["outcome"] == "succeeded"}
        if not open_ones and "second" not in states and "first" in done:
            open_ones = ["second (never sent)"]
        open_ones += [f"run {run['id']}" for run in found["runs"] if run["state"] != "ended"]
        if not open_ones and (self.keepers() or self.processes()):
            open_ones = [f"processes {self.keepers()} {self.processes()}"]
        return ", ".join(open_ones)


class Pump(threading.Thread):
    """Goes on with whoever stops itself at a point once more, until the block ends."""

    def __init__(self, factory: Factory) -> None:
        super().__init__(daemon=True)
        self._factory = factory
        self._leave = threading.Event()

    def run(self) -> None:
        while not self._leave.wait(0.02):
            self._factory.wake_stopped()

    def __enter__(self) -> None:
        self.start()

    def __exit__(self, *_: object) -> None:
        self._leave.set()
        self.join()


class Client(threading.Thread):
    """A person's program that sends one flight under one key and asks until it is answered. Errors are no answer."""

    def __init__(self, factory: Factory) -> None:
        super().__init__(daemon=True)
        self._socket = str(factory.state / "tower.sock")
        self._leave = threading.Event()
        self.flight: str | None = None
        self.acknowledged: list[str] = []
        self.start()

    def run(self) -> None:
        while not self._leave.is_set() and self.flight is None:
            try:
                answer = Api(self._socket, {}, None).post("/flights", {"to": "first", "body": "go", "key": KEY})
                self.acknowledged.append(answer["flight"]["id"])
                self.flight = self.acknowledged[-1]
            except TowerError:
                self._leave.wait(0.05)

    def leave(self) -> None:
        self._leave.set()
        self.join(15)


def _forks_keepers(argument: str) -> bool:
    return "tower.system.keeper.nursery" in argument


def is_stopped(pid: int) -> bool:
    """Whether a process has been stopped by a signal."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    except OSError:
        return False


def kill(*pids: int) -> None:
    """SIGKILL to all of them, as fast as it goes."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def wait_until(look: Callable[[], bool], *, seconds: float = PATIENCE) -> bool:
    """Whether it came true in time."""
    give_up = time.monotonic() + seconds
    while not look():
        if time.monotonic() > give_up:
            return False
        time.sleep(0.005)
    return True


@contextlib.contextmanager
def factory(access: str = "read-write", *, elsewhere: bool = False, kind: type[Factory] = Factory) -> Iterator[Factory]:
    """A factory in a temporary folder, of which nothing is left. The path is short, as socket paths must be.

    `elsewhere`: with the state folder in a folder `m`, for another file system.
    """
    folder = Path(tempfile.mkdtemp(prefix="tc-"))
    made = kind(folder, access=access, elsewhere=elsewhere)
    try:
        yield made
    finally:
        made.clean_up()
        for line in made.diary("child"):
            if procfs.start_ticks(int(line[2])) == int(line[3]):
                kill(int(line[2]))
        shutil.rmtree(folder, ignore_errors=True)
