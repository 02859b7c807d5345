"""The scripted agent as a real process: each step, and what a broken script says."""

from __future__ import annotations

import http.server
import json
import os
import signal
import socketserver
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import tower
from tower.core.fake_script import VERBS
from tower.system import fake_agent

PROGRAM = fake_agent.__file__
DOCS = Path(tower.__file__).parent.parent / "docs" / "fake-agent.md"


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Start the agent with such steps in an empty folder; whatever is left of it is ended."""
    started: list[subprocess.Popen[bytes]] = []

    def start(steps: str, *args: str, script: str | None = None, **env: str) -> subprocess.Popen[bytes]:
        file = tmp_path / "script.toml"
        file.write_text(script if script is not None else f"[[call]]\nsteps = [{steps}]")
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", PROGRAM, str(file), *args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=tmp_path,
            env={"PATH": "/usr/bin:/bin", **env},
            start_new_session=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.fixture
def run(start: Callable[..., subprocess.Popen[bytes]]) -> Callable[..., subprocess.CompletedProcess[bytes]]:
    """Run the agent to its end."""

    def run(steps: str, *args: str, stdin: bytes = b"", **options: str) -> subprocess.CompletedProcess[bytes]:
        process = start(steps, *args, **options)
        out, err = process.communicate(stdin, timeout=20)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    return run


Run = Callable[..., subprocess.CompletedProcess[bytes]]
Start = Callable[..., "subprocess.Popen[bytes]"]


def until(true: Callable[[], Any], seconds: float = 10) -> Any:
    """Wait for something to become true, and give it."""
    end = time.monotonic() + seconds
    while not (value := true()):
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.005)
    return value


def alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def test_every_step_of_the_grammar_is_carried_out_and_documented() -> None:
    assert fake_agent.DO.keys() == VERBS.keys()
    documented = DOCS.read_text()
    assert [verb for verb in VERBS if f"| `{verb}`" not in documented] == []


def test_saying_and_ending(run: Run) -> None:
    ran = run('{ say = "täna" }, { err = "oops" }, { exit = 3 }, { say = "never" }')
    assert (ran.returncode, ran.stdout.decode(), ran.stderr) == (3, "täna\n", b"oops\n")
    assert run('{ say = "x" }').returncode == 0


def test_echoes(run: Run, tmp_path: Path) -> None:
    ran = run(
        '{ echo = "stdin" }, { echo = "cwd" }, { echo = "call" }, { echo = "args" }, { echo = "env" }',
        "a b",
        stdin=b"what \xff it is told\n",
        LAYOVER_RUN_NUMBER="4",
    )
    assert ran.stdout == f"what \xff it is told\n{tmp_path}\n4\na b\nLAYOVER_RUN_NUMBER=4\nPATH=/usr/bin:/bin\n".encode(
        "latin-1"
    )


def test_calls_by_number_and_agent(run: Run) -> None:
    script = """
        [[call]]
        steps = [{ say = "first" }]
        [[call]]
        steps = [{ say = "later" }]
        [[agents.reviewer.call]]
        steps = [{ say = "reviewer" }]
    """
    said = [
        run("", script=script, LAYOVER_AGENT=agent, LAYOVER_RUN_NUMBER=number).stdout.decode().strip()
        for agent, number in (("coder", "1"), ("coder", "2"), ("coder", "3"), ("reviewer", "2"))
    ]
    assert said == ["first", "later", "later", "reviewer"]


def test_files(run: Run, tmp_path: Path) -> None:
    ran = run(
        '{ write = { path = "new/a.txt", text = "one\\n" } }, { append = { path = "new/a.txt", text = "two\\n" } }, '
        '{ read = "new/a.txt" }, { write = { path = "new/a.txt", text = "x" } }'
    )
    assert ran.stdout == b"one\ntwo\n"
    assert (tmp_path / "new/a.txt").read_text() == "x"


def test_one_case_and_the_other(run: Run, tmp_path: Path) -> None:
    told = (
        "{ when = { told = 'approved', then = [{ say = 'yes' }], otherwise = [{ say = 'no' }] } }, { echo = 'stdin' }"
    )
    assert run(told, stdin="it is approved ä".encode()).stdout.decode() == "yes\nit is approved ä"
    assert run(told, stdin=b"not yet").stdout == b"no\nnot yet"
    (tmp_path / "two").write_text("a\nb\n")
    lines = "{ when = { path = 'two', lines = 2, then = [{ say = 'enough' }] } }"
    more = "{ when = { path = 'two', lines = 3, then = [{ say = 'too much' }] } }"
    missing = "{ when = { path = 'none', otherwise = [{ read = 'none' }] } }"
    done = run(f"{lines}, {more}, {missing}")
    assert (done.stdout, done.returncode) == (b"enough\n", 64)
    assert b"call 1, step 3 (when): otherwise, step 1 (read): [Errno 2] No such file" in done.stderr


def test_shell_commands(run: Run) -> None:
    assert b"LC_" not in run('{ run = "env" }').stdout
    ran = run('{ say = "before" }, { run = "echo $((6 * 7))" }, { run = "exit 5" }, { say = "never" }')
    assert (ran.returncode, ran.stdout) == (5, b"before\n42\n")
    assert run('{ run = "kill -KILL $$" }').returncode == 137


def test_bytes_and_floods(run: Run) -> None:
    assert run("{ binary = true }").stdout.startswith(bytes(range(256)))
    one_line = run("{ flood = { mb = 1.5, line = true } }").stdout
    assert (len(one_line), one_line.count(b"\n")) == (3 * (1 << 19) + 1, 1)
    lines = run('{ flood = { mb = 2, to = "stderr" } }').stderr
    assert (len(lines), lines.count(b"\n")) == (2 << 20, 1 << 14)


def test_reports(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "out" / "report"
    run('{ report = { model = "m", tokens_in = 5, cost_usd = 0.25 } }', LAYOVER_REPORT=str(path))
    assert json.loads(path.read_text()) == {"model": "m", "tokens_in": 5, "cost_usd": 0.25}
    run('{ report = "{ no report" }', LAYOVER_REPORT=str(path))
    assert path.read_text() == "{ no report"


def test_ends(run: Run) -> None:
    assert run('{ say = "said" }, { kill = "KILL" }').returncode == -signal.SIGKILL
    ran = run('{ say = "said" }, { kill = "SEGV" }')
    assert (ran.returncode, ran.stdout) == (-signal.SIGSEGV, b"said\n")


def test_a_closed_stream_and_life_after_it(start: Start, tmp_path: Path) -> None:
    process = start('{ say = "last" }, { close = "stdout" }, { wait_for = { path = "go" } }, { err = "still here" }')
    assert process.stdout is not None
    assert process.stdout.read() == b"last\n"
    assert process.poll() is None
    (tmp_path / "go").touch()
    assert process.communicate(timeout=10) == (b"", b"still here\n")
    assert process.returncode == 0


def test_a_hang_ends_by_signal_alone(start: Start) -> None:
    process = start('{ say = "here" }, { hang = true }')
    assert process.stdout is not None
    assert process.stdout.readline() == b"here\n"
    process.terminate()
    assert process.wait(timeout=10) == -signal.SIGTERM


def test_an_ignored_signal(start: Start, tmp_path: Path) -> None:
    process = start('{ ignore = ["TERM"] }, { say = "here" }, { wait_for = { path = "go" } }, { say = "survived" }')
    assert process.stdout is not None
    assert process.stdout.readline() == b"here\n"
    process.terminate()
    (tmp_path / "go").touch()
    assert process.communicate(timeout=10)[0] == b"survived\n"
    assert process.returncode == 0


def test_last_words_after_term(start: Start) -> None:
    process = start(
        '{ on_term = [{ sleep = 0.05 }, { say = "bye" }, { exit = 7 }] }, { say = "here" }, { hang = true }'
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"here\n"
    process.terminate()
    assert process.communicate(timeout=10)[0] == b"bye\n"
    assert process.returncode == 7


@pytest.mark.parametrize("double", ["false", "true"])
def test_children_that_outlive_it(start: Start, tmp_path: Path, double: str) -> None:
    fork = f"count = 3, setsid = true, double = {double}, ignore_term = true, pids = 'pids'"
    process = start(f"{{ fork = {{ {fork} }} }}, {{ say = 'x' }}")
    out, _ = process.communicate(timeout=10)
    assert (out, process.returncode) == (b"x\n", 0)
    children = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    try:
        assert len(set(children)) == 3
        assert process.pid not in children
        for child in children:
            os.kill(child, signal.SIGTERM)
            assert alive(child)
            assert os.getsid(child) != process.pid
            assert (os.getsid(child) == child) is (double == "false")
            assert Path(f"/proc/{child}/fd/1").readlink() == Path("/dev/null")
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
    until(lambda: not any(alive(child) for child in children))


def test_a_child_that_holds_the_output(start: Start, tmp_path: Path) -> None:
    process = start("{ fork = { hold_output = true, pids = 'pids' } }")
    assert process.wait(timeout=10) == 0
    (child,) = (int(pid) for pid in (tmp_path / "pids").read_text().split())
    assert Path(f"/proc/{child}/fd/1").readlink().name.startswith("pipe:")
    os.kill(child, signal.SIGTERM)
    assert process.stdout is not None
    assert process.stdout.read() == b""


def test_children_that_end_by_themselves(start: Start, tmp_path: Path) -> None:
    start("{ fork = { seconds = 0, pids = 'pids' } }").communicate(timeout=10)
    (child,) = (int(pid) for pid in (tmp_path / "pids").read_text().split())
    until(lambda: not alive(child))


@contextmanager
def answering(path: Path, status: int, answer: bytes) -> Iterator[list[Any]]:
    """A tower's socket that gives one answer to everything, and what it was asked."""
    asked: list[Any] = []

    class Door(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append((self.path, self.headers["Authorization"], body))
            self.send_response(status)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

        def address_string(self) -> str:
            return "socket"

    # Bound by a bare name, since the folder's path may be too long for a socket.
    before = Path.cwd()
    os.chdir(path.parent)
    try:
        server = socketserver.UnixStreamServer(path.name, Door)
    finally:
        os.chdir(before)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_sending_as_this_run(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    where = {"LAYOVER_SOCKET": str(folder / "tower.sock"), "LAYOVER_RUN_TOKEN": "t0ken"}
    with answering(folder / "tower.sock", 202, b'{"flight": {"id": "flt_1"}}') as asked:
        ran = run('{ send = { to = "x", body = "b\\n" } }, { send = { to = "y", body = "", key = "k" } }', **where)
    assert ran.stdout == b"sent to x: flt_1\nsent to y: flt_1\n"
    key = asked[0][2].pop("key")
    assert len(key) == 32
    assert asked == [
        ("/flights", "Bearer t0ken", {"to": "x", "body": "b\n"}),
        ("/flights", "Bearer t0ken", {"to": "y", "body": "", "key": "k"}),
    ]


def test_a_refusal_is_an_answer(run: Run, tmp_path: Path) -> None:
    with answering(tmp_path / "s", 403, b'{"title": "refused", "detail": "cannot send: no route"}'):
        ran = run('{ send = { to = "x", body = "b" } }, { say = "on" }', LAYOVER_SOCKET=str(tmp_path / "s"))
    assert (ran.returncode, ran.stdout) == (0, b"not sent to x: cannot send: no route\non\n")


def test_a_tower_that_is_away_is_asked_again(start: Start, tmp_path: Path) -> None:
    """B081: a run goes on while its tower is started anew, and so does what it hands on."""
    where = {"LAYOVER_SOCKET": str(tmp_path / "s"), "LAYOVER_RUN_TOKEN": "t0ken"}
    process = start('{ send = { to = "x", body = "b" } }', **where)
    assert process.stderr is not None
    assert process.stderr.readline() == b"the tower is away, asking again until it is back\n"
    with answering(tmp_path / "s", 202, b'{"flight": {"id": "flt_1"}}') as asked:
        out, err = process.communicate(timeout=10)
    assert (process.returncode, out, err, len(asked)) == (0, b"sent to x: flt_1\n", b"", 1)


def test_an_answer_that_is_no_json(run: Run, tmp_path: Path) -> None:
    with answering(tmp_path / "s", 200, b"<html>"):
        ran = run('{ send = { to = "x", body = "b" } }', LAYOVER_SOCKET=str(tmp_path / "s"))
    assert ran.returncode == 64
    assert b"the tower's answer cannot be read" in ran.stderr


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ('{ read = "absent" }', "No such file or directory: 'absent'"),
        ('{ write = { path = "/proc/x/y", text = "" } }', "No such file or directory"),
        ("{ report = {} }", "LAYOVER_REPORT names no file for the report"),
        ('{ send = { to = "x", body = "y" } }', "LAYOVER_SOCKET names no socket to send to"),
        ('{ wait_for = { path = "never", timeout = 0.02 } }', "never did not appear within 0.02 s"),
        ('{ ignore = ["KILL"] }', "Invalid argument"),
        ('{ close = "stdout" }, { say = "x" }', "Bad file descriptor"),
    ],
)
def test_a_step_that_cannot_be_carried_out(run: Run, steps: str, words: str) -> None:
    ran = run(steps)
    assert ran.returncode == 64
    (sentence,) = ran.stderr.decode().splitlines()
    assert sentence.startswith("cannot go on with the script ")
    assert f".toml: call 1, step {steps.count('}, {') + 1} (" in sentence
    assert words in sentence


@pytest.mark.parametrize(
    ("env", "where"),
    [
        ({"LAYOVER_RUN_NUMBER": "2"}, "call 2, step 1 (read): "),
        ({"LAYOVER_RUN_NUMBER": "9"}, "call 2, step 1 (read): "),
        ({"LAYOVER_AGENT": "b"}, "agents.b.call 1, step 2 (read): "),
    ],
)
def test_the_call_and_the_step_that_failed_are_named(run: Run, env: dict[str, str], where: str) -> None:
    ran = run("", script='call = [{steps = []}, {steps = [{read = "no"}]}]\n'
              'agents.b.call = [{steps = [{say = "x"}, {read = "no"}]}]', **env)  # fmt: skip
    assert where in ran.stderr.decode()


def test_a_step_of_on_term_that_failed_is_named_and_not_the_one_it_came_into(start: Start) -> None:
    process = start('{ on_term = [{ say = "bye" }, { read = "no" }] }, { say = "ready" }, { hang = true }')
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.terminate()
    _, err = process.communicate(timeout=10)
    assert ": on_term, step 2 (read): " in err.decode()
    assert "(hang)" not in err.decode()


def test_no_tower_at_the_socket(run: Run, tmp_path: Path) -> None:
    ran = run('{ send = { to = "x", body = "y" } }', LAYOVER_SOCKET=str(tmp_path / "absent"))
    assert ran.returncode == 64
    assert b"cannot go on with the script" in ran.stderr


@pytest.mark.parametrize(
    ("script", "env", "words"),
    [
        ("[[call]]\nsteps = [{ sya = 1 }]", {}, "call 1, step 1: 'sya' is no step"),
        ("", {}, "it holds no [[call]]"),
        ("x", {}, "it is not TOML"),
        ("[[call]]\nsteps = []", {"LAYOVER_RUN_NUMBER": "two"}, "LAYOVER_RUN_NUMBER is 'two' and no number"),
        ("[[agents.a.call]]\nsteps = []", {"LAYOVER_AGENT": "b"}, "no [[agents.b.call]]"),
    ],
)
def test_a_script_that_cannot_be_followed(run: Run, script: str, env: dict[str, str], words: str) -> None:
    ran = run("", script=script, **env)
    assert ran.returncode == 64
    (sentence,) = ran.stderr.decode().splitlines()
    assert sentence.startswith("cannot follow the script ")
    assert words in sentence


def test_no_script(tmp_path: Path) -> None:
    def refusal(*args: str) -> tuple[int, bytes]:
        ran = subprocess.run([sys.executable, "-I", "-S", PROGRAM, *args], capture_output=True, check=False)
        return ran.returncode, ran.stderr

    assert refusal() == (64, b"cannot start: no script was named\n")
    code, words = refusal(str(tmp_path / "absent.toml"))
    assert (code, words.startswith(b"cannot read the script ")) == (64, True)
    (tmp_path / "latin.toml").write_bytes(b"# \xe9")
    assert refusal(str(tmp_path / "latin.toml"))[0] == 64


def test_it_loads_little() -> None:
    loaded = subprocess.run(
        [sys.executable, "-I", "-S", "-X", "importtime", PROGRAM], capture_output=True, check=False, text=True
    ).stderr
    modules = {line.rpartition("|")[2].strip() for line in loaded.splitlines() if "|" in line}
    ours = {name for name in modules if name.split(".")[0] == "tower"}
    assert ours == {"tower", "tower.core", "tower.core.fake_script"}
    # These cost more than all the rest, and few scripts need them.
    assert modules.isdisjoint({"subprocess", "http.client", "socket"})
