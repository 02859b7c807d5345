"""The grammar of the scripted agent's script: what is read, and how mistakes are named."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tower.core.fake_script import VERBS, ScriptError, Step, parse


def check(text: str) -> tuple[str, ...]:
    """Every problem of a script."""
    try:
        parse(text)
    except ScriptError as error:
        return error.problems
    return ()


WHOLE = """
[[call]]
steps = [{ say = "one" }, { fork = { count = 2 } }]

[[call]]
steps = [{ exit = 3 }]

[[agents.reviewer.call]]
steps = [{ kill = "SIGKILL" }, { ignore = ["TERM", "INT"] }]
"""


def test_calls_in_order_and_the_last_repeated() -> None:
    script = parse(WHOLE)
    assert script.call("coder", 1)[0] == Step("say", "one")
    assert [script.call("coder", number) for number in (2, 3, 99)] == [(Step("exit", 3),)] * 3
    assert script.call("coder", 0) == script.call("coder", 1)


def test_an_agents_own_calls_come_instead() -> None:
    script = parse(WHOLE)
    assert script.call("reviewer", 7) == (Step("kill", 9), Step("ignore", (15, 2)))
    alone = parse('[[agents.a.call]]\nsteps = [{ say = "x" }]')
    with pytest.raises(ScriptError, match=r"no \[\[call\]\], and no \[\[agents\.b\.call\]\]"):
        alone.call("b", 1)


def test_defaults_are_filled_in() -> None:
    assert parse(WHOLE).call("coder", 1)[1].value == {
        "count": 2,
        "setsid": False,
        "double": False,
        "ignore_term": False,
        "hold_output": False,
        "seconds": 600.0,
        "pids": None,
    }


def test_steps_within_a_step() -> None:
    script = parse('[[call]]\nsteps = [{ on_term = [{ say = "bye" }, { exit = 0 }] }, { hang = true }]')
    assert script.call("x", 1)[0] == Step("on_term", (Step("say", "bye"), Step("exit", 0)))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "it holds no [[call]]"),
        ("x = ", "it is not TOML: "),
        ("[" * 3000, "it is not TOML: "),
        ("[call]\nsteps = []", "call must be a list of tables: write [[call]]"),
        ("call = [1]", "call must be a list of tables: write [[call]]"),
        ("calls = []", "the script: 'calls' means nothing here; there is call, agents"),
        ("agents = 3", "agents must be tables: write [[agents.NAME.call]]"),
        ("[agents.a]\n", "agents.a must hold calls: write [[agents.a.call]]"),
        ("[agents.a]\ncall = 3", "agents.a.call must be a list of tables: write [[agents.a.call]]"),
        ("[[call]]\nstep = []", "call 1: 'step' means nothing here; there is steps"),
    ],
)
def test_mistakes_around_the_steps(text: str, problem: str) -> None:
    assert any(found.startswith(problem) for found in check(text))


@pytest.mark.parametrize(
    ("step", "problem"),
    [
        ("3", 'step 1: a step is a table with one key, such as { say = "hello" }'),
        ("{}", 'step 1: a step is a table with one key, such as { say = "hello" }'),
        ("{ say = 'a', exit = 1 }", 'step 1: a step is a table with one key, such as { say = "hello" }'),
        ("{ sya = 'a' }", "step 1: 'sya' is no step; there are append, binary, "),
        ("{ say = 3 }", "step 1: say must be text"),
        ("{ read = '' }", "step 1: read must be a path"),
        ("{ hang = false }", "step 1: hang must be true"),
        ("{ sleep = nan }", "step 1: sleep must be a number from 0 to 604800"),
        ("{ sleep = -1 }", "step 1: sleep must be a number from 0 to 604800"),
        ("{ sleep = true }", "step 1: sleep must be a number from 0 to 604800"),
        ("{ exit = 256 }", "step 1: exit must be a whole number from 0 to 255"),
        ("{ exit = 1.0 }", "step 1: exit must be a whole number from 0 to 255"),
        ("{ echo = 'stdout' }", "step 1: echo must be one of stdin, env, cwd, call, args"),
        ("{ kill = 'NINE' }", "step 1: kill must be the name of a signal, such as TERM"),
        ("{ kill = 9 }", "step 1: kill must be the name of a signal, such as TERM"),
        ("{ ignore = 'TERM' }", 'step 1: ignore must be a list of signals, such as ["TERM"]'),
        ("{ report = 3 }", "step 1: report must be a table, or text to be written as it stands"),
        ("{ write = 'x' }", "step 1: write must be a table of path, text"),
        ("{ write = { path = 'x' } }", "step 1: write needs text"),
        ("{ write = { path = 'x', text = 3 } }", "step 1: write text must be text"),
        ("{ write = { path = 'x', text = '', mode = 1 } }", "step 1: write knows no mode; there are path, text"),
        ("{ fork = { setsid = 1 } }", "step 1: fork setsid must be true or false"),
        ("{ fork = { count = 0 } }", "step 1: fork count must be a whole number from 1 to 1000"),
        ("{ on_term = 3 }", "step 1, steps must be a list"),
        ("{ on_term = [{ exit = 999 }] }", "step 1, step 1: exit must be a whole number from 0 to 255"),
        ("{ on_term = [{ on_term = [] }] }", "step 1: on_term cannot hold another on_term"),
        ("{ when = { then = [] } }", "step 1: when needs told or path, and not both"),
        ("{ when = { told = 'a', path = 'b' } }", "step 1: when needs told or path, and not both"),
        ("{ when = { told = 'a', then = [{ exit = 999 }] } }", "step 1: when then step 1: exit must be a whole number"),
    ],
)
def test_mistakes_in_a_step(step: str, problem: str) -> None:
    (found,) = check(f"[[call]]\nsteps = [{step}]")
    assert found.startswith(f"call 1, {problem}")


def test_all_mistakes_are_named_together() -> None:
    found = check("extra = 1\n[[call]]\nsteps = [{ say = 1 }, { exit = 0 }, { x = 1 }]\n[[agents.a.call]]\nsteps = 1")
    assert len(found) == 4
    with pytest.raises(ScriptError) as caught:
        parse("[[call]]\nsteps = [{ say = 1 }, { read = 1 }]")
    assert str(caught.value) == "call 1, step 1: say must be text; call 1, step 2: read must be a path"


EXAMPLES = {
    "tool": '{ name = "layover_send", arguments = { to = "a", body = "b" } }',
    "tools": "true",
    "say": '"a"',
    "raw": '"a"',
    "err": '"a"',
    "read": '"a/b"',
    "echo": '"env"',
    "binary": "true",
    "flood": "{ mb = 0.5, line = true, to = 'stderr' }",
    "close": '"stderr"',
    "write": "{ path = 'a', text = '' }",
    "append": "{ path = 'a', text = 'b' }",
    "report": "{ model = 'm', tokens_in = 1, cost_usd = nan }",
    "run": '"true"',
    "send": "{ to = 'a', body = 'b', key = 'c' }",
    "sleep": "0.5",
    "wait_for": "{ path = 'a', timeout = 1 }",
    "hang": "true",
    "ignore": '["SIGINT", "USR1"]',
    "on_term": "[{ exit = 0 }]",
    "fork": "{ setsid = true, double = true, hold_output = true, ignore_term = true, seconds = 1, pids = 'p' }",
    "when": "{ told = 'x', then = [{ exit = 1 }], otherwise = [{ when = { path = 'p', lines = 2 } }] }",
    "kill": '"STOP"',
    "exit": "255",
}


def test_every_step_has_an_example_that_is_read() -> None:
    assert EXAMPLES.keys() == VERBS.keys()
    steps = ", ".join(f"{{ {verb} = {value} }}" for verb, value in EXAMPLES.items())
    assert [step.verb for step in parse(f"[[call]]\nsteps = [{steps}]").call("x", 1)] == list(EXAMPLES)


def test_the_documented_scripts_are_scripts() -> None:
    text = (Path(__file__).parents[2] / "docs" / "fake-agent.md").read_text()
    scripts = [block for block in re.findall(r"```toml\n(.*?)```", text, re.DOTALL) if "call]]" in block]
    assert len(scripts) == 2
    assert [check(script) for script in scripts] == [(), ()]


@given(st.text(max_size=200))
def test_no_text_raises_anything_else(text: str) -> None:
    assert isinstance(check(text), tuple)


@given(st.sampled_from(sorted(VERBS)), st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists))
def test_no_value_raises_anything_else(verb: str, value: object) -> None:
    with suppress(ValueError):
        VERBS[verb](value)
