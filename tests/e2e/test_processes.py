"""What runs start, print and leave behind, below a real tower: nothing of it outlives them, whatever way they end."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cgroup import group

from e2e.daemon_process import Daemon, eventually
from tower.system import procfs

AGENT = """
[agents.{name}]
description = "x"
runner = {runner}
prompt = "Go."
entry = true
{more}
"""


def agent(name: str, script: str, more: str = "") -> str:
    return AGENT.format(name=name, runner=json.dumps(f"cmd:{script}"), more=more)


def rss(pid: int) -> int:
    """Bytes of memory that a process has in use."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def in_folder(folder: Path) -> list[int]:
    """Processes that work in a folder, also when it was removed."""
    found = []
    for pid in procfs.processes():
        try:
            place = os.readlink(f"/proc/{pid}/cwd")
        except OSError:
            continue
        if place.startswith(str(folder)):
            found.append(pid)
    return found


def test_fifty_cancelled_runs_leave_no_process_and_no_memory(daemon: Daemon) -> None:
    """B001: each has started three children in sessions of their own when it is cancelled."""
    daemon.configure(
        agent("forks", "for i in 1 2 3; do setsid sleep 600 & done; touch $LAYOVER_RUN_ID.up; wait"),
        defaults='writers = "shared"\nlinger_sec = 0.1\nmax_concurrent_runs = 10',
        layover="grace_sec = 2",
    )
    daemon.start()
    assert daemon.process is not None
    memory = []
    for _ in range(5):
        flights = [daemon.send("forks")["id"] for _ in range(10)]
        runs = [daemon.until(flight, lambda one: one["state"] == "running")["runs"][0]["id"] for flight in flights]
        eventually(lambda runs=runs: all((daemon.tree / f"{run}.up").exists() for run in runs))
        assert len(daemon.processes()) >= 40
        for run in runs:
            daemon.api.post(f"/runs/{run}/cancel")
        assert {daemon.landed(flight)["outcome"] for flight in flights} == {"cancelled"}
        eventually(lambda: daemon.processes() == [] and daemon.keepers() == [])
        memory.append(rss(daemon.process.pid))
    assert memory[-1] - memory[1] < 4 << 20, memory


LAST_LINE = """trap "sleep 1.5; echo last line; exit 0" TERM
setsid sleep 600 &
echo ready
while :; do sleep 0.05; done"""


def _cancel(daemon: Daemon) -> None:
    (run,) = daemon.api.get("/runs")["runs"]
    daemon.api.post(f"/runs/{run['id']}/cancel")


def _ground_stop(daemon: Daemon) -> None:
    (daemon.state / "ground-stop").touch()


def _stop(daemon: Daemon) -> None:
    daemon.stop()


def _nothing(daemon: Daemon) -> None:
    """A limit ends it."""


@pytest.mark.parametrize(
    ("end", "more"),
    [
        (_cancel, ""),
        (_nothing, "timeout_sec = 1"),
        pytest.param(_nothing, "stall_sec = 1", marks=pytest.mark.slow),
        pytest.param(_ground_stop, "", marks=pytest.mark.slow),
        (_stop, ""),
    ],
    ids=["cancel", "timeout", "stall", "ground stop", "stop of the service"],
)
def test_every_way_to_end_a_run_hears_its_last_line(daemon: Daemon, end: Callable[[Daemon], None], more: str) -> None:
    """B002: its last line comes 1.5 s after TERM."""
    daemon.configure(agent("slow", LAST_LINE, more + '\nrecovery = "never"'), layover="grace_sec = 8")
    daemon.start()
    run = daemon.until(daemon.send("slow")["id"], lambda one: one["state"] == "running")["runs"][0]["id"]
    log = daemon.state / "hangars" / "slow" / run / "stdout.log"
    eventually(lambda: log.exists() and log.read_text() == "ready\n")
    end(daemon)
    eventually(lambda: daemon.processes() == [] and daemon.keepers() == [])
    assert log.read_text() == "ready\nlast line\n"


STAYS = """
import signal, sys, time
def leave(*_):
    time.sleep(1.5)
    print("last line", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, leave)
print("ready", flush=True)
while True:
    time.sleep(0.05)
"""


@pytest.mark.parametrize(
    "how", ["removed", *(pytest.param(how, marks=pytest.mark.slow) for how in ("changed", "restart"))]
)
def test_every_way_to_end_a_resident_hears_its_last_line(daemon: Daemon, how: str) -> None:
    """B002: an agent that is removed, or gets another process. This one heeds nothing but TERM."""
    (daemon.folder / "stays.py").write_text(STAYS)
    resident = f"""
[runners.mine]
command = ["{sys.executable}", "{daemon.folder}/stays.py"]
protocol = "jsonl"
[agents.stays]
description = "x"
runner = "mine"
prompt = "Go."
entry = true
resident = true
"""
    other = agent("other", "true")
    daemon.configure(resident + other, layover="grace_sec = 8")
    daemon.start()

    def logs() -> list[Path]:
        return sorted((daemon.state / "hangars" / "stays").glob("prc_*/stdout.log"))

    log = eventually(lambda: next((one for one in logs() if one.read_text() == "ready\n"), None))
    (keeper,) = eventually(daemon.keepers)
    if how == "restart":
        # It says that it is alive by having been started; a turn it never takes.
        eventually(lambda: daemon.tower("agents", "restart", "stays").returncode == 0)
    else:
        daemon.configure(
            other if how == "removed" else resident.replace("Go.", "Go on.") + other, layover="grace_sec = 8"
        )
    eventually(lambda: keeper not in daemon.keepers())
    assert log.read_text() == "ready\nlast line\n"
    if how == "removed":
        assert daemon.processes() == []
    else:
        eventually(lambda: len(logs()) == 2)


@contextmanager
def _without_a_group() -> Iterator[None]:
    yield None


SERVER = """
import http.server, os, sys
server = http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), http.server.SimpleHTTPRequestHandler)
open(sys.argv[2], "w").close()
server.serve_forever()
"""


@pytest.mark.parametrize("place", [_without_a_group, group], ids=["no control group", "control group"])
def test_a_server_in_a_session_of_its_own_gives_back_its_port(daemon: Daemon, place: Callable[..., object]) -> None:
    """B004: it was started with `setsid`, in a snapshot, and had shed its environment."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    up = daemon.folder / "up"
    (daemon.folder / "server.py").write_text(SERVER)
    start = f"setsid env -i {sys.executable} {daemon.folder}/server.py {port} {up} &"
    script = f"{start}\nwhile [ ! -e {up} ]; do sleep 0.02; done; echo served"
    daemon.configure(agent("serves", script, 'access = "read-only"'), defaults="linger_sec = 0.2")
    with place() as given:  # type: ignore[attr-defined]
        if given is not None:
            os.setxattr(given, "trusted.delegate", b"1")
        daemon.start(cgroup=given)
        flight = daemon.landed(daemon.send("serves")["id"])
        assert (flight["outcome"], daemon.answer(flight["runs"][0]["id"])) == ("succeeded", "served")
        socket.create_server(("127.0.0.1", port)).close()
        assert in_folder(daemon.state) == []
        assert daemon.stop() == 0


def test_what_has_timed_out_does_nothing_more(daemon: Daemon) -> None:
    """B014: it ignores TERM, and a child in a session of its own beats on; after the record nobody beats."""
    beat = daemon.folder / "beat"
    beats = f"while :; do date +%N > {beat}; sleep 0.02; done"
    script = f"""trap "" TERM; setsid sh -c 'trap "" TERM; {beats}' & {beats}"""
    agents = agent("beats", script, "timeout_sec = 1") + agent("other", "true")
    daemon.configure(agents, layover="grace_sec = 0.5", defaults='writers = "shared"')
    daemon.start()
    flight = daemon.landed(daemon.send("beats")["id"])
    assert flight["outcome"] == "timed_out"
    last = beat.stat().st_mtime_ns
    assert daemon.processes() == []
    for _ in range(3):
        daemon.landed(daemon.send("other")["id"])
    assert beat.stat().st_mtime_ns == last


def test_a_start_that_fails_leaves_nothing_wherever_it_does(daemon: Daemon) -> None:
    """B015: a snapshot was made, and then: the program is missing, may not be executed, or a variable is not set."""
    plain = daemon.folder / "plain"
    plain.write_text("no program")
    odd = daemon.folder / "odd"
    odd.write_bytes(b"\1\2\3")
    odd.chmod(0o755)
    kinds = {"missing": daemon.folder / "none", "denied": plain, "odd": odd}
    runners = "".join(f'[runners.{name}]\ncommand = ["{path}"]\n' for name, path in kinds.items())
    agents = "".join(
        f'[agents.{name}]\ndescription = "x"\nrunner = "{name}"\nprompt = "Go."\naccess = "read-only"\nentry = true\n'
        for name in kinds
    )
    needy = agent("needy", "true", 'access = "read-only"\nenv_from = ["NOT_SET_HERE"]')
    before = subprocess.run(["git", "-C", daemon.tree, "for-each-ref"], capture_output=True, check=True).stdout
    daemon.configure(runners + agents + needy, defaults="max_concurrent_runs = 1")
    daemon.start()
    for name in (*kinds, "needy"):
        flight = daemon.send(name)["id"]
        found = daemon.until(flight, lambda one: one["state"] in ("held", "landed", "dead"))
        assert found["reason"], name
        assert found["outcome"] != "succeeded", name

    def left() -> list[str]:
        places = [daemon.state / "k", daemon.state / "snapshots"]
        return [str(path) for place in places for path in place.iterdir() if path.name != "frozen"]

    eventually(lambda: left() == [])
    assert daemon.processes() == daemon.keepers() == []
    assert daemon.api.get("/status")["slots"]["used"] == 0
    worktrees = subprocess.run(["git", "-C", daemon.tree, "worktree", "list"], capture_output=True, check=True).stdout
    assert len(worktrees.splitlines()) == 1
    assert subprocess.run(["git", "-C", daemon.tree, "for-each-ref"], capture_output=True, check=True).stdout == before
    assert not list(daemon.tree.rglob("*.lock"))


RUNNERS = {
    "shell": 'runner = "cmd:cat | wc -c"',
    "command": 'runner = "command"',
    "fake": 'runner = "fake:echo.toml"',
}


@pytest.mark.parametrize("kind", RUNNERS)
def test_every_kind_of_runner_has_its_input_ended(daemon: Daemon, kind: str) -> None:
    """B027: whoever reads its input to the end gets there."""
    (daemon.folder / "echo.toml").write_text('[[call]]\nsteps = [{ echo = "stdin" }, { say = "end" }]\n')
    daemon.configure(
        '[runners.command]\ncommand = ["sh", "-c", "cat; echo end"]\n'
        f'[agents.reads]\ndescription = "x"\n{RUNNERS[kind]}\nprompt = "Go."\nentry = true\n'
    )
    daemon.start()
    flight = daemon.landed(daemon.send("reads", "a body")["id"])
    run = flight["runs"][0]["id"]
    size = len(daemon.payload(run).encode())
    assert flight["outcome"] == "succeeded"
    if kind == "shell":
        assert daemon.answer(run) == str(size)
    else:
        assert daemon.answer(run).endswith("end")


@pytest.mark.parametrize("size", [131_072, 3_000_000])
def test_a_body_of_any_size_is_delivered_or_refused_when_it_is_sent(daemon: Daemon, size: int) -> None:
    """B031: an argument on Linux has 128 KiB at most; a body is none."""
    daemon.configure(agent("counts", "wc -c"), layover="max_body_bytes = 4000000")
    daemon.start()
    flight = daemon.landed(daemon.send("counts", "x" * size)["id"])
    assert flight["outcome"] == "succeeded"
    assert int(daemon.answer(flight["runs"][0]["id"])) > size


def test_a_variable_that_no_program_can_be_given_is_refused_by_name(daemon: Daemon) -> None:
    """B031: it is said before anything starts, and the flight waits for another value."""
    credentials = daemon.folder / "credentials"
    credentials.mkdir()
    (credentials / "ENDLESS").write_text("x" * 131_072)
    daemon.environ["CREDENTIALS_DIRECTORY"] = str(credentials)
    daemon.configure(agent("needy", "true", 'env_from = ["ENDLESS"]'))
    daemon.start()
    flight = daemon.until(daemon.send("needy")["id"], lambda one: one["state"] == "held")
    assert flight["held_reason"] == "environment"
    assert "ENDLESS (declared by agents.needy.env_from) is too large" in flight["reason"]
    assert flight["runs"] == []


def test_a_log_of_two_gigabytes_is_read_in_pages(daemon: Daemon) -> None:
    """B034: by its end, by an offset, from the command line; the tower's memory stays as it was."""
    daemon.configure(agent("prints", "head -c 100000000 /dev/zero; echo the end"), layover="max_log_mb = 4096")
    daemon.start()
    assert daemon.process is not None
    flight = daemon.landed(daemon.send("prints")["id"])
    run = flight["runs"][0]["id"]
    folder = daemon.state / "hangars" / "prints" / run
    segments = sorted(folder.glob("stdout.log.*"), key=lambda path: int(path.suffix[1:]))
    size = (folder / "stdout.log").stat().st_size
    last = 2 * (1 << 30) // size
    # The disk of a test should not have to hold it: the middle of the log is nothing but holes.
    segments[-1].rename(folder / f"stdout.log.{last}")
    for number in range(len(segments), last):
        with (folder / f"stdout.log.{number}").open("wb") as hole:
            hole.truncate(size)
    before = rss(daemon.process.pid)
    assert daemon.api.read(f"/runs/{run}/log", {"offset": -8, "limit": 100}).body == b"the end\n"
    for offset in (0, 1 << 30, (2 << 30) - (1 << 20)):
        page = daemon.api.read(f"/runs/{run}/log", {"offset": offset, "limit": 1 << 20})
        assert len(page.body) == 1 << 20
    assert daemon.tower("logs", run, "--tail", "8").stdout == "the end\n"
    assert daemon.tower("show", run).returncode == 0
    assert rss(daemon.process.pid) - before < 48 << 20


@pytest.mark.parametrize("runs", [20, pytest.param(200, marks=[pytest.mark.slow, pytest.mark.timeout(600)])])
def test_what_runs_printed_is_not_kept_in_memory(daemon: Daemon, runs: int) -> None:
    """B035: 20 MB each."""
    daemon.configure(
        agent("prints", "head -c 20000000 /dev/zero | tr '\\0' x", 'access = "read-only"'),
        layover="max_log_mb = 16",
    )
    daemon.start()
    assert daemon.process is not None
    daemon.landed(daemon.send("prints")["id"])
    before = rss(daemon.process.pid)
    for flight in [daemon.send("prints")["id"] for _ in range(runs)]:
        found = eventually(
            lambda flight=flight: found if (found := daemon.flight(flight))["state"] == "landed" else None, seconds=500
        )
        assert found["outcome"] == "succeeded"
    assert rss(daemon.process.pid) - before < 24 << 20
