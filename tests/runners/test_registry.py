"""Every kind of runner: what it starts, and what it makes of the output."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from tower.core.errors import RefusedError
from tower.core.evidence import Reading
from tower.core.factory import Agent, Runner
from tower.core.prompts import Prompt
from tower.runners import Invocation, of

CONTEXT = Invocation(
    config_dir="/factory",
    workspace="/tree",
    run_dir="/state/hangars/coder/run_1",
    prompt="/state/hangars/coder/run_1/payload.md",
    python="/usr/bin/python3",
    fake_agent="/lib/tower/system/fake_agent.py",
)


def agent(**changes: Any) -> Agent:
    values: dict[str, Any] = {
        "name": "coder",
        "runner": "mine",
        "instructions": Prompt.of("x"),
        "work_dir": "/tree",
    }
    return Agent(**values | changes)


def runner(kind: str, **changes: Any) -> Runner:
    return Runner(name="mine", kind=kind, **changes)


def argv(one: Runner, **changes: Any) -> tuple[str, ...]:
    return of(one).argv(one, agent(**changes), context=CONTEXT)


def read(one: Runner, out: bytes = b"", report: str | None = None) -> Reading:
    return of(one).read(one, out, report)


def test_a_command_with_all_its_placeholders() -> None:
    one = runner(
        "command",
        command=("{config_dir}/agent", "--as", "{name}", "-p", "{prompt}", "-C", "{workspace}", "--out={run_dir}/out"),
        args=("--effort", "{effort}", "--context", "{context}", "--mcp", "{mcp}"),
    )
    assert argv(one, args=("--model", "{model}"), model="m; rm -rf /", effort=None) == (
        "/factory/agent",
        "--as",
        "coder",
        "-p",
        "/state/hangars/coder/run_1/payload.md",
        "-C",
        "/tree",
        "--out=/state/hangars/coder/run_1/out",
        "--model",
        "m; rm -rf /",
    )


def test_arguments_of_the_runner_come_before_the_agents() -> None:
    one = runner("command", command=("agent", "{args}", "-"), args=("--a",))
    assert argv(one, args=("--b",)) == ("agent", "--a", "--b", "-")


def test_a_script_is_one_argument() -> None:
    script = "cat; echo \"it's {name} $1\" # 'x"
    assert argv(runner("cmd", command=(script,))) == ("/bin/sh", "-c", script)


def test_arguments_of_a_script_reach_it_unchanged() -> None:
    one = runner("cmd", command=('printf "%s|" "$@"',), args=("a b", "$HOME"))
    started = argv(one, args=("`id`", "{name}", "-m", "{model}"))
    assert subprocess.run(started, capture_output=True, check=True).stdout == b"a b|$HOME|`id`|coder|"


def test_the_scripted_agent() -> None:
    assert argv(runner("fake", detail="/f/script.toml", args=("x",))) == (
        "/usr/bin/python3",
        "-I",
        "-S",
        "/lib/tower/system/fake_agent.py",
        "/f/script.toml",
        "x",
    )


def test_unavailable_fails_and_says_why() -> None:
    one = runner("unavailable", detail="quota is gone until $(date); 'sorry'")
    ran = subprocess.run(argv(one), capture_output=True, check=False)
    assert ran.returncode == 1
    assert ran.stderr.decode() == "quota is gone until $(date); 'sorry'\n"
    assert read(one, b"whatever").unavailable == one.detail


def test_none_is_never_started() -> None:
    with pytest.raises(RefusedError, match="cannot start coder: its runner is none"):
        argv(runner("none"))
    assert read(runner("none"), b"x") == Reading()


def test_a_kind_that_does_not_exist() -> None:
    with pytest.raises(KeyError):
        of(runner("magic"))


@pytest.mark.parametrize("kind", ["command", "cmd", "fake"])
@pytest.mark.parametrize(
    ("out", "answer"),
    [
        (b"", None),
        (b" \n\n", None),
        (b"\n  two\nlines \n\n", "  two\nlines "),
        (b"\xff\xfe", "\ufffd\ufffd"),
        ("ä".encode() * 600_000, "ä" * (1 << 19)),
    ],
)
def test_the_output_is_the_answer(kind: str, out: bytes, answer: str | None) -> None:
    assert read(runner(kind), out).answer == answer


@pytest.mark.parametrize("kind", ["command", "cmd", "fake"])
def test_a_run_that_says_nothing_of_its_cost(kind: str) -> None:
    silent = read(runner(kind, assume=250_000))
    assert (silent.cost, silent.problems) == (None, ())


@pytest.mark.parametrize(
    ("kind", "output", "believed"),
    [("command", "text", False), ("command", "report", True), ("cmd", "text", True), ("fake", "text", True)],
)
def test_whose_report_is_read(kind: str, output: str, believed: bool) -> None:
    found = read(runner(kind, output=output), report='{"cost_usd": 0.5}')
    assert found.cost == (500_000 if believed else None)


@pytest.mark.parametrize("kind", ["command", "cmd", "fake"])
def test_a_promised_report_is_missed(kind: str) -> None:
    assert read(runner(kind, output="report")).problems == ("it wrote no report to LAYOVER_REPORT",)
