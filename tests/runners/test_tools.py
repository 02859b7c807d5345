"""How programs are told of the tower's tools: every form, and never the token."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest

from tower.core.factory import Agent, Runner, ToolWiring
from tower.core.prompts import Prompt
from tower.runners import Invocation, of
from tower.runners.tools import FILE, offer

URL = "http://127.0.0.1:4711/mcp"
AGENT = Agent(name="coder", runner="mine", instructions=Prompt(), work_dir="/w")


def runner(form: str, *command: str, **wiring: Any) -> Runner:
    return Runner(name="mine", kind="command", command=command or ("prog",), mcp=ToolWiring(format=form, **wiring))


def argv(one: Runner) -> tuple[str, ...]:
    context = Invocation(
        workspace="/w", run_dir="/r", prompt=None, config_dir="/c", python="py", fake_agent="fa", mcp_url=URL
    )
    return of(one).argv(one, AGENT, context=context)


def test_claude_reads_a_file() -> None:
    made = offer(runner("claude_json", prefix="@"), URL, "/r")
    assert (made.value, dict(made.env)) == ("@/r/mcp.json", {})
    server = json.loads(made.files[FILE])["mcpServers"]["layover"]
    assert server == {
        "type": "http",
        "url": URL,
        "alwaysLoad": True,
        "headers": {"Authorization": "Bearer ${LAYOVER_RUN_TOKEN}"},
    }


def test_codex_reads_an_override() -> None:
    made = offer(runner("codex_overrides"), URL, "/r")
    assert dict(made.files) == {}
    server = tomllib.loads(made.value or "")["mcp_servers"]["layover"]
    assert (server["url"], server["bearer_token_env_var"]) == (URL, "LAYOVER_RUN_TOKEN")


def test_gemini_and_qwen_read_settings_that_a_variable_names() -> None:
    made = offer(runner("gemini_settings"), URL, "/r")
    assert set(made.env.values()) == {"/r/mcp.json"}
    server = json.loads(made.files[FILE])["mcpServers"]["layover"]
    assert (server["httpUrl"], server["headers"]) == (URL, {"Authorization": "Bearer $LAYOVER_RUN_TOKEN"})


def test_opencode_reads_a_variable() -> None:
    made = offer(runner("opencode_json"), URL, "/r")
    server = json.loads(made.env["OPENCODE_CONFIG_CONTENT"])["mcp"]["layover"]
    assert (server["url"], server["headers"]) == (URL, {"Authorization": "Bearer {env:LAYOVER_RUN_TOKEN}"})


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (runner("claude_json", "prog", "--mcp", "{mcp}", "-"), ("prog", "--mcp", "/r/mcp.json", "-")),
        (runner("claude_json", "prog", "--mcp={mcp}", flag="--x"), ("prog", "--mcp=/r/mcp.json")),
        (runner("claude_json", "prog", flag="--mcp", prefix="@"), ("prog", "--mcp", "@/r/mcp.json")),
        (runner("env", "prog", "{mcp}"), ("prog", URL)),
        (runner("none", "prog", "--mcp", "{mcp}", "-"), ("prog", "-")),
        (runner("none", "prog", flag="--mcp"), ("prog",)),
        (Runner(name="mine", kind="command", command=("prog", "--mcp", "{mcp}")), ("prog",)),
    ],
)
def test_the_command_has_a_place_for_it_or_gets_one(one: Runner, expected: tuple[str, ...]) -> None:
    assert argv(one) == expected


def test_without_a_door_nothing_is_told() -> None:
    assert offer(runner("claude_json"), "", "/r") == offer(Runner(name="m", kind="command"), URL, "/r")
