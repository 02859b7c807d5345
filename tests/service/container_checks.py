"""What is promised of the image, checked from outside with podman. Run as root by container.sh."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from table import Checks, holds, run, same, took, until

TABLE, SCRATCH, HOW, _, *ENGINE = sys.argv[1:]
HERE = Path(__file__).parent
IMAGE = "localhost/tower"
NO_ZOMBIE_WITHIN = 5.0
"""Seconds after the last of 200 orphans was made."""
ENGINE_PATIENCE = 10.0
"""Seconds after which `docker stop` and `podman stop` kill."""

image = Checks()
last: list[Container] = []
"""The container of the check that is going on, for its log."""


def podman(*words: str, code: int | None = 0) -> subprocess.CompletedProcess[str]:
    return run(*ENGINE, *words, code=code)


class Container:
    """One container with a factory and a state volume of its own."""

    def __init__(self, name: str, *options: str, uid: int = 10001, command: tuple[str, ...] = ()) -> None:
        self.name = name
        self.factory = Path(SCRATCH, "factories", name)
        self.work = self.factory / "workspace"
        if not self.factory.exists():
            shutil.copytree(HERE / "factory", self.factory)
            run("git", "init", "--quiet", self.work)
            run("chown", "-R", f"{uid}:0", self.factory)
        self._options = [*HOW.split(), "--network=none", f"--volume={self.factory}:/etc/tower"]
        self._options += [f"--volume={name}:/var/lib/tower", *options]
        self._command = command

    def __enter__(self) -> Container:
        last[:] = [self]
        podman("run", "--detach", "--name", self.name, *self._options, IMAGE, *self._command)
        return self

    def __exit__(self, *failure: object) -> None:
        last_log = self.log()
        podman("rm", "--force", "--time=0", self.name, code=None)
        if failure[0] is not None:
            last[:] = []
            failed_log[:] = last_log.splitlines()[-12:]

    def log(self) -> str:
        said = podman("logs", self.name, code=None)
        return said.stdout + said.stderr

    def ready(self) -> Container:
        """Wait until the health check of the image says yes."""
        until("it answers", lambda: self.has_ended() or self.is_healthy())
        holds("it goes on", is_so=not self.has_ended())
        return self

    def is_healthy(self) -> bool:
        return podman("healthcheck", "run", self.name, code=None).returncode == 0

    def has_ended(self) -> bool:
        return podman("inspect", "--format", "{{.State.Status}}", self.name).stdout.strip() == "exited"

    def shell(self, script: str, *, code: int | None = 0) -> str:
        return podman("exec", self.name, "sh", "-ec", script, code=code).stdout

    def tower(self, *words: str, code: int | None = 0) -> str:
        return podman("exec", self.name, "tower", *words, code=code).stdout

    def told(self, *words: str) -> dict[str, Any]:
        return json.loads(self.tower(*words, "--json", code=None))

    def begin(self, agent: str, key: str) -> None:
        self.tower("send", "--quiet", agent, key)
        until(f"{key} runs", lambda: self.starts(key))

    def starts(self, key: str) -> int:
        file = self.work / f"pid.{key}"
        return len(file.read_text().split()) if file.exists() else 0

    def let_go(self, key: str) -> None:
        (self.work / f"go.{key}").touch()
        until("no run is alive", lambda: not self.told("ps")["runs"])

    def ask_to_stop(self) -> tuple[float, int]:
        """As `podman stop` does by itself; the seconds it took, and the exit code."""
        began = time.monotonic()
        podman("stop", self.name)
        return took(began), self.exit_code()

    def exit_code(self) -> int:
        return int(podman("inspect", "--format", "{{.State.ExitCode}}", self.name).stdout)

    def zombies(self) -> int:
        return int(self.shell("grep -l '^State:.Z' /proc/[0-9]*/status 2>/dev/null | wc -l"))

    def first_process(self) -> str:
        return self.shell("tr '\\0' ' ' < /proc/1/cmdline")


failed_log: list[str] = []


def tell_log() -> str:
    said, failed_log[:] = list(failed_log), []
    return "\n".join(said)


def orphans_are_reaped(container: Container) -> str:
    """From a run, whose keeper adopts them, and from outside of all runs, where only process 1 can."""
    with container:
        container.ready()
        same("answer", container.tower("send", "--wait", "--quiet", "orphans", "x").strip(), "forked")
        until("no zombie of a run", lambda: container.zombies() == 0, within=NO_ZOMBIE_WITHIN)
        container.shell("i=0; while [ $i -lt 200 ]; do (setsid sleep 0.3 &) ; i=$((i + 1)); done")
        time.sleep(0.5)
        until("no zombie from outside of runs", lambda: container.zombies() == 0, within=NO_ZOMBIE_WITHIN)
        first = container.first_process().strip()
        seconds, code = stops_in_order(container)
        return f"process 1 is {' '.join(first.split()[:3])}; stop {seconds:.1f} s, exit code {code}"


def stops_in_order(container: Container) -> tuple[float, int]:
    container.begin("worker", "last")
    seconds, code = container.ask_to_stop()
    holds(f"stopped in {seconds:.1f} s", is_so=seconds < ENGINE_PATIENCE)
    holds(f"exit code {code}", is_so=code in (0, 143))
    return seconds, code


def interrupted_and_recovered(container: Container, key: str) -> str:
    """After a new start of a stopped container: the automatic work was cut off, and is done again."""
    container.ready()
    until(f"{key} is started again", lambda: container.starts(key) == 2)
    runs = [one for one in container.told("ps", "--all")["runs"] if one["agent"] == "worker"]
    runs.sort(key=lambda one: one["number"])
    same("runs", [(one["outcome"], one["attempt"]) for one in runs], [("interrupted", 1), (None, 2)])
    container.let_go(key)
    runs = [one for one in container.told("ps", "--all")["runs"] if one["agent"] == "worker"]
    same("outcomes", sorted(one["outcome"] for one in runs), ["interrupted", "succeeded"])
    return f"interrupted ({min(runs, key=lambda one: one['number'])['interruption']}), then succeeded"


@image("the image says what it is")
def _() -> str:
    (told,) = json.loads(podman("image", "inspect", IMAGE).stdout)
    config = told["Config"]
    same("user", config["User"], "10001:0")
    same("stop signal", config["StopSignal"], "SIGTERM")
    same("entry point", config["Entrypoint"], ["tini", "--", "tower"])
    same("health check", told["Healthcheck"]["Test"], ["CMD", "tower", "status", "--health"])
    history = podman("history", "--no-trunc", "--format", "{{.CreatedBy}}", IMAGE).stdout
    holds("no trace of the build's registry", is_so="find-links" not in history and "pip.conf" not in history)
    return f"{told['Size'] / 1e6:.0f} MB"


@image("it serves, by default")
def _() -> str:
    with Container("default", "--env=CHECK_SECRET=check-7f3a-of-the-container") as container:
        began = time.monotonic()
        container.ready()
        seconds = took(began)
        same("user", container.shell("id -u; id -g").split(), ["10001", "0"])
        holds("process 1 is tini", is_so=container.first_process().startswith("tini -- tower serve"))
        same("mode of the state", container.shell("stat -c %a:%u /var/lib/tower/state").strip(), "700:10001")
        container.tower("status")
        answer = container.tower("send", "--wait", "--quiet", "secret", "tell")
        holds("the secret is masked", is_so="in clear: [masked]" in answer)
        holds("it is in no file", is_so=not container.shell("grep -rlF check-7f3a /var/lib/tower || true"))
        holds("it is not in the log", is_so="check-7f3a" not in container.log())
        return f"healthy after {seconds:.1f} s; secret from --env, masked"


@image("agents can work in it")
def _() -> str:
    with Container("tools") as container:
        lines = container.ready().tower("send", "--wait", "--quiet", "tools", "x").splitlines()
        broken = [line for line in lines if line.startswith("BROKEN")]
        holds("\n".join(["some tools do not work", *broken]), is_so=not broken and len(lines) > 10)
        return ", ".join(line.partition(": ")[2] for line in lines if line.startswith("works"))


@image("200 orphans leave no zombie: default")
def _() -> str:
    return orphans_are_reaped(Container("orphans"))


@image("200 orphans leave no zombie: entry point overridden")
def _() -> str:
    return orphans_are_reaped(Container("entry", "--entrypoint=tower", command=("serve",)))


@image("200 orphans leave no zombie: --init")
def _() -> str:
    return orphans_are_reaped(Container("init", "--init"))


@image("200 orphans leave no zombie: --init, entry point overridden")
def _() -> str:
    return orphans_are_reaped(Container("both", "--init", "--entrypoint=tower", command=("serve",)))


@image("stop ends deaf runs in time; the next start settles")
def _() -> str:
    with Container("stop") as container:
        container.ready()
        container.begin("worker", "s1")
        container.begin("deaf", "s2")
        seconds, code = container.ask_to_stop()
        holds(f"stopped in {seconds:.1f} s", is_so=seconds < ENGINE_PATIENCE)
        holds(f"exit code {code}", is_so=code in (0, 143))
        podman("start", container.name)
        word = interrupted_and_recovered(container, "s1")
        same("starts of the manual one", container.starts("s2"), 1)
        return f"{seconds:.1f} s, exit code {code}; {word}"


@image("a killed container settles at its next start")
def _() -> str:
    with Container("killed") as container:
        container.ready()
        container.begin("worker", "k1")
        podman("kill", "--signal=KILL", container.name)
        until("it has ended", container.has_ended)
        podman("start", container.name)
        return interrupted_and_recovered(container, "k1")


@image("a new container takes the state volume over")
def _() -> str:
    with Container("volume") as first:
        first.ready().begin("worker", "v1")
        first.ask_to_stop()
    with Container("volume") as second:
        return interrupted_and_recovered(second, "v1")


@image("a crash of the tower alone ends the container; nothing is lost")
def _() -> str:
    with Container("crash") as container:
        container.ready().begin("worker", "c1")
        container.shell(f"kill -9 {container.told('status')['pid']}")
        until("it has ended", container.has_ended)
        code = container.exit_code()
        same("exit code", code, 137)
        podman("start", container.name)
        return interrupted_and_recovered(container, "c1")


@image("the root may be read-only")
def _() -> str:
    with Container("readonly", "--read-only", "--read-only-tmpfs=false", "--tmpfs=/tmp") as container:
        container.ready()
        holds("the root is read-only", is_so="no" in container.shell("touch /opt/x 2>/dev/null || echo no"))
        same("answer", container.tower("send", "--wait", "--quiet", "orphans", "x").strip(), "forked")
        seconds, code = stops_in_order(container)
        return f"stop {seconds:.1f} s, exit code {code}"


@image("a user without a name may run it")
def _() -> str:
    with Container("nameless", "--user=54321:0", "--passwd=false", uid=54321) as container:
        container.ready()
        same("the user has no name", container.shell("getent passwd 54321 || echo none").strip(), "none")
        lines = container.tower("send", "--wait", "--quiet", "tools", "x").splitlines()
        holds(f"git works: {lines}", is_so="works: git" in lines and "works: python" in lines)
        container.tower("status")
        return "git and python work for uid 54321"


@image("without rights, without new ones")
def _() -> str:
    with Container("bare", "--cap-drop=all", "--security-opt=no-new-privileges") as container:
        container.ready()
        same("answer", container.tower("send", "--wait", "--quiet", "orphans", "x").strip(), "forked")
        until("no zombie", lambda: container.zombies() == 0, within=NO_ZOMBIE_WITHIN)
        seconds, code = stops_in_order(container)
        return f"stop {seconds:.1f} s, exit code {code}"


@image("health is liveness: waiting is not ill, hanging is")
def _() -> str:
    with Container("health") as container:
        container.ready()
        container.tower("send", "--quiet", "secret", "held")
        until(
            "the flight is held", lambda: podman("exec", container.name, "tower", "status", code=None).returncode == 3
        )
        podman("healthcheck", "run", container.name)
        pid = container.told("status")["pid"]
        container.shell(f"kill -STOP {pid}")
        began = time.monotonic()
        ill = podman("healthcheck", "run", container.name, code=None).returncode
        seconds = took(began)
        holds("a stopped tower is ill", is_so=ill != 0)
        container.shell(f"kill -CONT {pid}")
        podman("healthcheck", "run", container.name)
        return f"held: healthy; stopped: ill after {seconds:.1f} s"


@image("a wrong file ends it with 78 and words")
def _() -> str:
    return ends_with(78, Container("wrong"), lambda folder: (folder / "layover.toml").write_text("[layover]\nx = 1\n"))


@image("no file at all ends it with 78 and words")
def _() -> str:
    return ends_with(78, Container("none"), lambda folder: (folder / "layover.toml").unlink())


def ends_with(code: int, container: Container, spoil: Callable[[Path], object]) -> str:
    spoil(container.factory)
    with container:
        until("it has ended", container.has_ended)
        same("exit code", container.exit_code(), code)
        words = container.log().strip().splitlines()
        holds("it says why", is_so=any("layover.toml" in line for line in words))
        return words[0][:100]


@image("a second container on the same volume is refused (75)")
def _() -> str:
    with Container("shared") as first:
        first.ready()
        more = [
            *HOW.split(),
            "--network=none",
            f"--volume={first.factory}:/etc/tower",
            "--volume=shared:/var/lib/tower",
        ]
        refused = podman("run", "--rm", *more, IMAGE, code=75)
        first.tower("status")
        return refused.stderr.strip().splitlines()[0][:100]


def main() -> int:
    """Carry out all checks."""
    os.chdir("/")
    with Path(TABLE).open("w") as table:
        return 0 if image.carry_out(table, before=lambda: None, on_failure=tell_log) else 1


if __name__ == "__main__":
    sys.exit(main())
