"""Bad input and hostile callers get a clear answer, and nothing is lost."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from e2e.daemon_process import Daemon, eventually
from tower.system import procfs

ECHO = """
[agents.echo]
description = "Repeats"
runner = "cmd:cat"
prompt = "Repeat."
access = "read-only"
entry = true
[agents.inner]
description = "No entry"
runner = "cmd:cat"
prompt = "Repeat."
access = "read-only"
[[routes]]
from = "echo"
to = "inner"
"""

AGENT = '[agents.a]\ndescription = "d"\nrunner = "cmd:true"\nentry = true\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "tower init"),
        ("[layover]\nwork_dri = 'x'\n" + AGENT + 'prompt = "p"\n', "work_dir"),
        (AGENT + 'prompt = "p"\nprompt_file = "x.md"\n', "prompt_file"),
        (AGENT, "prompt"),
        ('[agents."../up"]\nrunner = "cmd:true"\nprompt = "p"\nentry = true\n', "../up"),
    ],
    ids=["empty", "unknown key", "both prompts", "no prompt", "a path as name"],
)
def test_a_bad_file_is_refused_while_a_person_watches(daemon: Daemon, text: str, said: str) -> None:
    daemon.config.write_text(text)
    for verb in ("validate", "serve"):
        done = daemon.tower(verb, "--config", str(daemon.config))
        assert done.returncode == 78, (verb, done.stdout, done.stderr)
        assert "layover.toml" in done.stdout + done.stderr
        assert said in done.stdout + done.stderr
        assert "Traceback" not in done.stderr
    assert not daemon.state.exists()


@pytest.mark.parametrize(
    ("arguments", "stdin", "code", "said"),
    [
        (["nobody", "x"], None, None, "nobody"),
        (["inner", "x"], None, 77, "entry"),
        (["echo", "-"], "x" * 5000, None, "max_body_bytes"),
        (["echo", "   "], None, None, "empty"),
    ],
    ids=["unknown agent", "no entry", "too large", "empty"],
)
def test_what_cannot_be_sent_is_refused_in_a_sentence(
    daemon: Daemon, arguments: list[str], stdin: str | None, code: int | None, said: str
) -> None:
    daemon.configure(ECHO, layover="max_body_bytes = 4096")
    daemon.start()
    done = daemon.tower("send", *arguments, stdin=stdin)
    assert done.returncode not in (0, 69)
    assert code in (None, done.returncode)
    assert said in done.stderr
    assert "cannot" in done.stderr
    assert daemon.api.get("/flights")["flights"] == []


def test_a_body_that_is_no_utf8_is_refused(daemon: Daemon) -> None:
    daemon.configure(ECHO)
    daemon.start()
    done = subprocess.run(
        [sys.executable, "-m", "tower", "send", "echo", "-"],
        cwd=daemon.folder,
        env=daemon.environ,
        input=b"\xff\xfe\xfa",
        capture_output=True,
        timeout=20,
        check=False,
    )
    assert done.returncode not in (0, 69)
    assert b"UTF-8" in done.stderr


def test_nobody_there_and_a_frozen_daemon_are_told_apart(daemon: Daemon) -> None:
    daemon.configure(ECHO)
    nobody = daemon.tower("status")
    assert nobody.returncode == 69
    assert "tower.sock" in nobody.stderr
    daemon.start()
    assert daemon.process is not None
    daemon.process.send_signal(signal.SIGSTOP)
    try:
        began = time.monotonic()
        frozen = daemon.tower("status")
        assert frozen.returncode == 69
        assert time.monotonic() - began < 19
        assert str(daemon.process.pid) in frozen.stderr
        second = daemon.tower("serve", "--config", str(daemon.config))
        assert second.returncode == 75
        assert str(daemon.process.pid) in second.stderr
        assert (daemon.state / "tower.sock").exists()
    finally:
        daemon.process.send_signal(signal.SIGCONT)
    assert daemon.tower("status").returncode == 0


def test_a_second_tower_says_who_holds_the_folder_and_a_killed_one_leaves_no_lock(daemon: Daemon) -> None:
    """B081: never two of them on one state folder."""
    daemon.configure(ECHO)
    for _ in range(5):
        daemon.start()
        second = daemon.tower("serve", "--config", str(daemon.config))
        assert second.returncode == 75
        assert daemon.tower("status").returncode == 0
        daemon.kill()
        assert (daemon.state / "tower.sock").exists()


def test_a_state_folder_that_cannot_be_written_is_refused(daemon: Daemon) -> None:
    daemon.configure(ECHO, layover='state_dir = "/proc/self/nowhere"')
    done = daemon.tower("serve", "--config", str(daemon.config))
    assert done.returncode not in (0, 69)
    assert "/proc/self/nowhere" in done.stderr
    assert "state_dir" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_socket_path_that_is_too_long_is_refused(daemon: Daemon) -> None:
    daemon.configure(ECHO, layover=f'socket = "{"x" * 120}.sock"')
    done = daemon.tower("validate", "--config", str(daemon.config))
    assert done.returncode == 78
    assert "107" in done.stdout + done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
def test_a_full_disk_refuses_and_loses_nothing_and_goes_on_when_space_returns(daemon: Daemon) -> None:
    """B076: the disk fills while a run is at work."""
    state = daemon.folder / "small"
    state.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m,mode=700", "tmpfs", str(state)], check=True)
    daemon.state = state
    try:
        gate = daemon.folder / "gate"
        gated = f"""
[agents.gated]
description = "Waits for a gate"
runner = '''cmd:while [ ! -e {gate} ]; do sleep 0.05; done; echo through'''
prompt = "Go."
entry = true
"""
        daemon.configure(ECHO + gated, layover=f'state_dir = "{state}"')
        daemon.start()
        kept = daemon.landed(daemon.send("echo", "before")["id"])
        running = daemon.until(daemon.send("gated")["id"], lambda one: one["state"] == "running")
        filler = state / "filler"
        descriptor = os.open(filler, os.O_WRONLY | os.O_CREAT)
        with contextlib.suppress(OSError):
            while True:
                os.write(descriptor, b"x" * 4096)
        os.close(descriptor)
        # What is running can still be settled, and its exit is not lost; nothing new is taken.
        gate.touch()
        done = daemon.landed(running["id"])
        assert (done["outcome"], len(done["runs"])) == ("succeeded", 1)
        refused = eventually(
            lambda: next((one for one in [daemon.tower("send", "echo", "y" * 60_000)] if one.returncode), None)
        )
        assert refused.returncode == 75
        assert "full" in refused.stderr
        assert daemon.tower("status").returncode == 3
        known = daemon.api.get("/flights")["flights"]
        filler.unlink()
        eventually(lambda: daemon.tower("send", "echo", "after").returncode == 0)
        assert daemon.tower("status").returncode == 0
        assert daemon.landed(kept["id"])["outcome"] == "succeeded"
        for flight in known:
            assert daemon.landed(flight["id"])["state"] in ("landed", "held")
    finally:
        daemon.clean_up()
        subprocess.run(["umount", "-l", str(state)], check=True)


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_curl_is_a_client(daemon: Daemon) -> None:
    daemon.configure(ECHO)
    daemon.start()
    done = subprocess.run(
        ["curl", "-sS", "--unix-socket", str(daemon.state / "tower.sock"), "http://tower/health"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert '"status":"ok"' in done.stdout.replace(" ", "")


def test_a_run_is_never_a_person_however_it_hides(daemon: Daemon) -> None:
    script = Path(daemon.folder / "ask.py")
    script.write_text(
        """
import os, subprocess, sys, time
argv = [sys.executable, "-m", "tower", "ground-stop", "on", "--socket", os.environ["LAYOVER_SOCKET"]]
done = os.environ["DONE"]
# Twice forked, in a session of its own, with an empty environment.
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        result = subprocess.run(argv, env={"PATH": os.environ["PATH"]}, capture_output=True, text=True)
        open(done + ".new", "w").write(f"{result.returncode} {result.stderr}")
        os.rename(done + ".new", done)
    os._exit(0)
while not os.path.exists(done):
    time.sleep(0.05)
"""
    )
    done = daemon.folder / "done"
    daemon.configure(
        f"""
[agents.sly]
description = "Tries"
runner = "cmd:{sys.executable} {script}"
prompt = "Go."
entry = true
env = {{ DONE = "{done}" }}
"""
    )
    daemon.start()
    daemon.landed(daemon.send("sly")["id"])
    code, _, said = done.read_text().partition(" ")
    assert code == "77", said
    assert "run" in said
    assert daemon.api.get("/status")["ground_stop"] is None


@pytest.mark.skipif(procfs.has_no_new_privs(1), reason="everything here may gain no rights, so that marks nobody")
def test_what_outlived_keeper_and_tower_is_no_person_either(daemon: Daemon) -> None:
    done = daemon.folder / "done"
    agent = f'''
[agents.sly]
description = "Outlives"
runner = "cmd:exec {sys.executable} {Path(__file__).parent / "agents" / "outlive.py"}"
prompt = "Go."
entry = true
recovery = "never"
env = {{ DONE = "{done}", OF_TOWER = "PID" }}
'''
    daemon.configure(agent)
    daemon.start()
    assert daemon.process is not None
    daemon.configure(agent.replace("PID", str(daemon.process.pid)))
    assert daemon.tower("reload").returncode == 0
    daemon.send("sly")
    daemon.process.wait(20)
    daemon.start()
    code, _, said = eventually(lambda: done.exists() and done.read_text()).partition(" ")
    assert code == "77", said
    assert "no_new_privs" in said
    assert daemon.api.get("/status")["ground_stop"] is None


def test_what_a_run_prints_cannot_harm_the_daemon(daemon: Daemon) -> None:
    """B020, B032: bytes of any kind, more of them than are kept."""
    daemon.configure(
        """
[agents.noisy]
description = "Prints anything"
runner = '''cmd:
head -c 20000000 /dev/zero | tr '\\0' 'x'
head -c 3000000 /dev/urandom
printf '\\377\\376'
head -c 9000000 /dev/zero >&2
'''
prompt = "Go."
entry = true
""",
        layover="max_log_mb = 16",
    )
    daemon.start()
    flight = daemon.landed(daemon.send("noisy")["id"])
    assert flight["outcome"] == "succeeded"
    run = flight["runs"][-1]["id"]
    assert daemon.tower("status").returncode == 0
    shown = daemon.tower("show", run)
    assert shown.returncode == 0
    (note,) = (note for note in flight["runs"][-1]["notes"] if "max_log_mb" in note)
    assert note in shown.stdout
    kept = sum(path.stat().st_size for path in (daemon.state / "hangars" / "noisy" / run).glob("std*.log*"))
    assert f"{32_000_002 - kept} bytes in the middle were cut out" in note
    head = daemon.api.read(f"/runs/{run}/log", {"offset": 0, "limit": 10})
    assert head.body == b"x" * 10
    tail = daemon.api.read(f"/runs/{run}/log", {"offset": -2, "limit": 10})
    assert tail.body == b"\xff\xfe"
    assert sum(path.stat().st_size for path in daemon.state.rglob("*.log*")) < 50 << 20
