"""What holds for every verb: exit codes, quiet ends, what is imported, and help."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest
from client.fake_tower import FakeTower, problem, raw, reply, silence

import tower.cli as entry
from tower import __version__
from tower.cli import SECTIONS, exits
from tower.client import api
from tower.core.errors import UnreachableError

from . import documents
from .conftest import TOWER, Cli

VERBS = [verb for verbs in SECTIONS.values() for verb in verbs]
AND_MODULES = "import sys; from tower.cli import main; c = main(); print(*sys.modules, file=sys.stderr); sys.exit(c)"
"""A program that is `tower` and then says what it has imported."""
LOG = f"GET /runs/{documents.RUN}/log"


def log_of(size: int) -> bytes:
    return raw(200, b"x" * size, "application/octet-stream", X_Offset="0", X_Next_Offset=str(size), X_Ended="1")


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (422, exits.USAGE),
        (403, exits.REFUSED),
        (404, exits.FAILED),
        (409, exits.FAILED),
        (500, exits.FAILED),
        (503, exits.BUSY),
        (507, exits.BUSY),
    ],
)
def test_a_problem_is_words_on_standard_error_and_an_exit_code(
    fake: FakeTower, cli: Cli, status: int, code: int
) -> None:
    fake.routes["POST /flights"] = problem(
        status, "some-code", "cannot send to tester: it is no entry", "send to coder"
    )
    result = cli("send", "tester", "hello")
    assert result.code == code
    assert result.out == ""
    assert result.err == "tower: cannot send to tester: it is no entry\n  send to coder\n"


@pytest.mark.parametrize("verb", ["status", "ps", "queue", "reload", "drain", "resume"])
def test_no_tower_is_69_with_all_that_was_tried(cli: Cli, nowhere: Path, verb: str) -> None:
    (nowhere / "layover.toml").touch()
    result = cli(verb)
    assert result.code == exits.UNREACHABLE
    assert result.out == ""
    assert f"{nowhere}/.layover/tower.sock" in result.err
    assert "/run/tower/tower.sock" in result.err


def test_a_frozen_tower_is_69_and_its_socket_stays(fake: FakeTower, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "ANSWER_SECONDS", 0.2)
    fake.routes["GET /status"] = silence
    result = cli("status")
    assert result.code == exits.UNREACHABLE
    assert "no answer came within 0.2 s" in result.err
    assert fake.path.is_socket()


def test_the_socket_may_be_named_before_the_verb_and_after_it(tmp_path: Path, cli: Cli) -> None:
    with FakeTower(tmp_path / "named.sock", {"GET /health": reply({"status": "ok"})}) as named:
        assert cli("--socket", str(named.path), "status", "--health").code == 0
        assert cli("status", "--health", "--socket", str(named.path)).code == 0
        assert cli("--socket", "/nowhere", "status", "--health", "--socket", str(named.path)).code == 0
    assert len(named.requests) == 3


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["statsu"], "Did you mean status?"),
        (["zzz"], "No such command"),
        (["send"], "Missing argument 'AGENT'"),
        (["send", "a"], "Missing argument 'BODY'"),
        (["ps", "--limit", "0"], "Invalid value"),
        (["ps", "--nothing"], "No such option"),
        (["show", "../../etc"], "cannot look up"),
    ],
)
def test_wrong_use_is_2(cli: Cli, args: list[str], words: str) -> None:
    result = cli(*args)
    assert (result.code, result.out) == (exits.USAGE, "")
    assert words in result.err


def test_an_interrupt_is_130(fake: FakeTower) -> None:
    fake.routes["GET /status"] = silence
    with subprocess.Popen([*TOWER, "status"], stderr=subprocess.PIPE, text=True) as process:
        while not fake.requests:
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=10)
    assert process.returncode == exits.INTERRUPTED
    assert "Traceback" not in err


@pytest.mark.parametrize("args", [["logs", documents.RUN], ["ps"], ["status", "--json"]])
def test_a_reader_that_goes_away_ends_it_quietly(fake: FakeTower, args: list[str]) -> None:
    fake.routes |= {
        LOG: log_of(1 << 20),
        "GET /runs": reply({"runs": [documents.run(reason="x" * 5000)] * 49}),
        "GET /status": reply(documents.status(warnings=["x" * 500_000])),
    }
    with subprocess.Popen([*TOWER, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == exits.DONE


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_output_that_cannot_be_written_is_said(fake: FakeTower) -> None:
    fake.routes["GET /runs"] = reply({"runs": [documents.run()]})
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run([*TOWER, "ps"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == exits.FAILED
    assert done.stderr == "tower: cannot write to standard output: No space left on device\n"


def test_closed_streams_do_no_harm(fake: FakeTower) -> None:
    fake.routes["GET /status"] = reply(documents.status())
    done = subprocess.run(["sh", "-c", '"$@" >&- 2>&-', "sh", *TOWER, "status"], check=False)
    assert done.returncode == exits.DONE


def test_an_encoding_without_the_character_shows_its_escape(fake: FakeTower) -> None:
    fake.routes["GET /runs"] = reply({"runs": [documents.run(agent="Größe")]})
    environ = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([*TOWER, "ps"], capture_output=True, env=environ, text=True, check=True)
    assert r"Gr\xf6\xdfe" in done.stdout


def test_status_on_a_pipe_imports_nothing_heavy(fake: FakeTower) -> None:
    fake.routes["GET /status"] = reply(documents.status())
    done = subprocess.run([sys.executable, "-c", AND_MODULES, "status"], capture_output=True, text=True, check=True)
    heavy = {
        *(
            "pydantic",
            "pydantic_core",
            "fastapi",
            "starlette",
            "uvicorn",
            "anyio",
            "asyncio",
            "mcp",
            "rich",
            "structlog",
        ),
        *("http.client", "email", "urllib.parse", "subprocess", "pathlib", "dataclasses", "ulid", "yaml", "sqlite3"),
        *("tower.daemon", "tower.engine", "tower.store", "tower.system", "tower.config", "tower.control", "tower.web"),
    }
    assert "tower.cli.verbs.status" in done.stderr
    assert heavy.isdisjoint(done.stderr.split())
    assert {name for name in done.stderr.split() if name.startswith("tower.cli.verbs.")} == {"tower.cli.verbs.status"}


def test_help_names_every_verb_and_imports_nothing_of_the_daemon() -> None:
    done = subprocess.run([sys.executable, "-c", AND_MODULES, "--help"], capture_output=True, text=True, check=True)
    for verb in VERBS:
        assert f"\n  {verb} " in done.stdout
    assert {"pydantic", "anyio", "fastapi", "rich"}.isdisjoint(done.stderr.split())


@pytest.mark.parametrize("verb", [[], ["send"], ["ground-stop", "on"]])
def test_help_may_be_asked_for_by_its_name(cli: Cli, verb: list[str]) -> None:
    assert cli("help", *verb).out == cli(*verb, "--help").out != ""


def test_help_for_no_verb_is_wrong_use(cli: Cli) -> None:
    result = cli("help", "sned")
    assert result.code == exits.USAGE
    assert "Did you mean send?" in result.err


@pytest.mark.parametrize("verb", ["", *VERBS])
def test_help_puts_the_plain_word_beside_ours_the_first_time(cli: Cli, verb: str) -> None:
    words = cli(*([verb] if verb else []), "--help").out.replace("\n", " ").lower()
    plain = {"flight": "(message", "itinerary": "(chain", "ground stop": "(the kill switch"}
    for ours, beside in plain.items():
        _, found, after = " ".join(words.split()).partition(ours)
        if found:
            assert after.lstrip("s").lstrip().startswith(beside), f"{verb}: {ours}"


@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_is_a_command_of_its_name_with_a_line_of_help(verb: str) -> None:
    command = entry.tower.get_command(click.Context(entry.tower), verb)
    assert command is not None
    assert command.name == verb
    assert command.short_help
    assert len(command.short_help) < 60


def test_the_version_is_told(cli: Cli) -> None:
    assert cli("--version").out == f"tower {__version__}\n"


def test_hostile_words_of_an_error_do_not_reach_the_terminal(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def evil(*_: object) -> None:
        raise UnreachableError("x", "cannot \x1b]0;owned\x07 reach", "a\x9bhint")

    monkeypatch.setattr(api.Api, "get", evil)
    assert cli("ps").err == "tower: cannot \\x1b]0;owned\\x07 reach\n  a\\x9bhint\n"
