"""The door for agents of a real tower, through the official client: identity, tools, refusals, hostile requests."""

from __future__ import annotations

import json

import anyio
import httpx2
import pytest
from mcp.shared.exceptions import MCPError

from tower.core.tools import FOR_ORCHESTRATORS, TOOLS

from .daemon_process import Daemon, eventually
from .mcp_client import HOLDING, Pass, call, connected, in_loop, pass_of, post

AGENTS = f"""
[agents.coder]
description = "writes code"
prompt = "Do it."
entry = true
runner = '{HOLDING}'
env_from = ["API_KEY"]
[agents.tester]
description = "tests it"
purpose = "when it is written"
prompt = "Test it."
runner = "cmd:cat"
[[routes]]
from = "coder"
to = "tester"
"""
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}


@pytest.fixture
def held(daemon: Daemon) -> Pass:
    """The pass of a run of the coder that is alive."""
    daemon.environ["API_KEY"] = "hush-4711-hush"
    daemon.configure(AGENTS, defaults='writers = "shared"\ntimeout_sec = 600')
    daemon.start()
    return pass_of(daemon, daemon.send("coder", "build it")["id"])


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@in_loop
async def test_both_generations_find_the_tools_and_nothing_else(held: Pass, mode: str) -> None:
    async with connected(held, mode) as client:  # type: ignore[arg-type]
        assert [tool.name for tool in (await client.list_tools()).tools] == [
            name for name in TOOLS if name not in FOR_ORCHESTRATORS
        ]
        announced = client.server_capabilities.model_dump(exclude_none=True)
        assert set(announced) == {"tools"}
        assert client.server_info.name == "layover"
        with pytest.raises(MCPError, match="Unknown tool: layover_fly"):
            await client.call_tool("layover_fly", {})
        with pytest.raises(MCPError, match="Invalid cursor"):
            await client.list_tools(cursor="next")


@in_loop
async def test_an_agent_hands_work_on_and_says_what_it_did(daemon: Daemon, held: Pass) -> None:
    async with connected(held) as client:
        peers = await call(client, "layover_peers")
        assert peers == (False, "You may send to:\n- tester (read-write): tests it When: when it is written")
        refused, words = await call(client, "layover_send", to="tester", body="look at the key hush-4711-hush", key="k")
        assert not refused
        assert words.startswith("flight flt_")
        assert "hops left for what you send: 7" in words
        again = await call(client, "layover_send", to="tester", body="look at the key hush-4711-hush", key="k")
        assert "had been sent before" in again[1]
        assert "hops left: 7" in (await call(client, "layover_status"))[1]
        told = await call(client, "layover_report", headline="built", body="all", artifacts=["readme.txt", "../../x"])
        assert (told[0], told[1].startswith("report kept\nartifact '../../x' was left out")) == (False, True)
        asked = await call(
            client, "layover_help", summary="need a key", detail=f"mine is {held.token}", blocker="access"
        )
        assert (asked[0], "is open (access)" in asked[1]) == (False, True)
    flight = daemon.landed(words.split()[1])
    assert (flight["sender"]["name"], flight["outcome"]) == ("coder", "succeeded")
    assert "look at the key [masked]" in flight["body"]
    run = flight["sender"]["ref"]
    assert daemon.api.get(f"/runs/{run}/report")["headline"] == "built"
    (request,) = daemon.api.get("/help")["help"]
    assert (request["run"], request["detail"]) == (run, "mine is [masked]")
    assert request["id"] in daemon.tower("help-requests", "-q", check=True).stdout
    assert daemon.tower("help-requests", "resolve", request["id"]).returncode == 0
    assert daemon.api.get("/help")["help"] == []


@in_loop
async def test_refusals_are_answers_that_say_what_to_do(held: Pass) -> None:
    """B105: what a rule refuses is an answer, at once, and not a silence."""
    async with connected(held) as client:
        for tool, arguments, words in (
            (
                "layover_send",
                {"to": "nobody", "body": "x"},
                "cannot find an agent called 'nobody'\nthere are: coder, tester",
            ),
            ("layover_send", {"to": "coder", "body": "x"}, "no route leads there"),
            ("layover_send", {"to": "tester", "body": " "}, "cannot send an empty body"),
            ("layover_send", {"to": "tester"}, "body: Field required"),
            ("layover_send", {"to": "tester", "body": "x", "from": "ann"}, "from: Extra inputs are not permitted"),
            ("layover_report", {"headline": "", "body": ""}, "cannot take an empty headline"),
            ("layover_help", {"summary": "x", "detail": "", "blocker": "money"}, "blocker is one of access"),
            ("layover_logbook_read", {"tail": 0}, "tail: Input should be greater than or equal to 1"),
            ("layover_memory_write", {"text": "\n"}, "cannot write down nothing"),
        ):
            refused, said = await call(client, tool, **arguments)
            assert (refused, words in said) == (True, True), said
    half = post(
        held,
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"layover_send","arguments":{"to":"tester","body":"\\ud800"}}}',
    )
    assert half.status_code in (200, 400)
    assert "error" in half.text.lower()


@in_loop
async def test_memory_and_logbook_lose_nothing_to_many_writers(daemon: Daemon, held: Pass) -> None:
    other = pass_of(daemon, daemon.send("coder", "and this")["id"])

    async def write(who: Pass, name: str) -> None:
        async with connected(who) as client:
            for number in range(10):
                assert not (await call(client, "layover_memory_write", text=f"note {name} {number}."))[0]
                assert not (await call(client, "layover_logbook_append", text=f"line {name} {number}."))[0]

    async with anyio.create_task_group() as group:
        for name in "ab":
            group.start_soon(write, held, f"held-{name}")
            group.start_soon(write, other, f"other-{name}")
    async with connected(held) as client:
        memory = (await call(client, "layover_memory_read"))[1]
        logbook = (await call(client, "layover_logbook_read", tail=10_000))[1]
    for name in ("held-a", "held-b", "other-a", "other-b"):
        for number in range(10):
            assert memory.count(f"note {name} {number}.") == 1
            assert logbook.count(f"line {name} {number}.") == 1


def test_a_token_holds_through_a_restart_and_ends_with_its_run(daemon: Daemon, held: Pass) -> None:
    assert post(held, LIST).status_code == 200
    daemon.kill()
    daemon.start()
    assert post(held, LIST).status_code == 200
    (daemon.tree / "end").touch()
    run = daemon.api.get("/runs", {"all": True})["runs"][-1]
    daemon.landed(run["flights"][0])
    ended = post(held, LIST)
    assert (ended.status_code, ended.json()["code"]) == (401, "bad-token")


@in_loop
async def test_what_a_run_that_was_adopted_writes_is_masked(daemon: Daemon, held: Pass) -> None:
    daemon.kill()
    del daemon.environ["API_KEY"]  # only the run itself has it now
    daemon.start()
    secret = f"it is hush-4711-hush, and I am {held.token}"
    async with connected(held) as client:
        await call(client, "layover_memory_write", text=secret)
        await call(client, "layover_logbook_append", text=secret)
        await call(client, "layover_report", headline=secret, body=secret)
        await call(client, "layover_help", summary="look", detail=secret)
        sent = (await call(client, "layover_send", to="tester", body=secret))[1]
        told = (await call(client, "layover_memory_read"))[1] + (await call(client, "layover_logbook_read"))[1]
    assert told.count("it is [masked], and I am [masked]") == 2
    daemon.landed(sent.split()[1])
    daemon.kill()
    for path in daemon.state.rglob("*"):
        if path.is_file():
            assert [word for word in (b"hush-4711-hush", held.token.encode()) if word in path.read_bytes()] == [], path


WIRED = """
[runners.mine]
command = ["sh", "-c", "while [ ! -e end ]; do sleep 0.05; done"]
mcp = { format = "env" }
[agents.coder]
prompt = "Do it."
entry = true
runner = "mine"
"""


def test_tools_are_loaded_when_a_program_starts_that_will_ask(daemon: Daemon) -> None:
    daemon.configure(WIRED)
    daemon.start()
    assert "mcp.ready" not in daemon.log.read_text()
    daemon.send("coder")
    eventually(lambda: "mcp.ready" in daemon.log.read_text())


def test_who_does_not_belong_here_gets_nothing(held: Pass) -> None:
    forged = held.token[:-1] + ("0" if held.token[-1] != "0" else "1")
    for headers, status in (
        ({"Authorization": f"Bearer {forged}"}, 401),
        ({"Authorization": f"Basic {held.token}"}, 401),
        ({"Authorization": "Bearer"}, 401),
        ({"Host": "rebound.example"}, 403),
        ({"Host": "rebound.example:80"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Content-Type": "text/plain"}, 415),
    ):
        answer = post(held, LIST, **headers)
        assert (answer.status_code, "layover_send" in answer.text) == (status, False), headers
    assert httpx2.post(held.url, json=LIST, trust_env=False).status_code == 401
    assert httpx2.get(held.url.removesuffix("/mcp") + "/status", trust_env=False).status_code == 401
    assert httpx2.get(held.url.removesuffix("/mcp") + "/health", trust_env=False).status_code == 200


def test_malformed_requests_are_the_protocols_own_errors(daemon: Daemon, held: Pass) -> None:
    assert post(held, b"{bad").json()["error"]["code"] == -32700
    assert post(held, LIST | {"id": None}).json()["error"]["code"] == -32600
    assert post(held, [LIST]).status_code == 400
    assert post(held, LIST | {"method": "tools/fly"}).json()["error"]["code"] == -32601
    assert post(held, b'{"a":' * 100_000).status_code == 400
    assert post(held, b" " * (10 << 20)).status_code == 413
    for method in ("GET", "DELETE"):
        answer = httpx2.request(method, held.url, headers={"Authorization": f"Bearer {held.token}"}, trust_env=False)
        assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    assert daemon.tower("status", "--health").returncode == 0


SCRIPTED = """
[agents.lead]
prompt = "Lead."
position = "orchestrator"
entry = true
runner = "fake:lead.toml"
[agents.tester]
prompt = "Test it."
runner = "none"
[[routes]]
from = "lead"
to = "tester"
"""
SCRIPT = """
[[call]]
steps = [
  { tools = true },
  { tool = { name = "layover_memory_write", arguments = { text = "It was here." } } },
  { tool = { name = "layover_memory_read" } },
  { tool = { name = "layover_send", arguments = { to = "lead", body = "x" } } },
  { tool = { name = "layover_send", arguments = { to = "tester", body = "look" } } },
  { run = "tower mcp < $TMPDIR/../../calls" },
]
"""


@pytest.mark.slow  # the client is imported twice, and the tower loads its tools
@pytest.mark.timeout(120)
def test_a_scripted_agent_calls_tools_by_the_official_client_and_over_stdio(daemon: Daemon) -> None:
    (daemon.folder / "lead.toml").write_text(SCRIPT)
    calls = [
        {
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": {"name": "t", "version": "1"},
            },
        },
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "layover_peers", "arguments": {}}},
        {"id": 3, "method": "tools/call", "params": {"name": "layover_fly", "arguments": {}}},
    ]
    (daemon.state / "hangars" / "lead").mkdir(parents=True)
    text = "".join(json.dumps({"jsonrpc": "2.0"} | one) + "\n" for one in calls) + "not JSON\n"
    (daemon.state / "hangars" / "lead" / "calls").write_text(text)
    daemon.configure(SCRIPTED, defaults='writers = "shared"')
    daemon.start()
    sent = daemon.send("lead")["id"]
    flight = eventually(lambda: found if (found := daemon.flight(sent))["state"] == "landed" else None, seconds=90)
    said = daemon.answer(flight["runs"][-1]["id"])
    assert flight["outcome"] == "succeeded", daemon.log.read_text()
    assert said.startswith("layover_send\nlayover_peers\n")
    assert "\nlayover_cancel\n" in said
    assert "\n\nIt was here.\n" in said
    assert "layover_send was refused: cannot send from lead to lead: no route leads there" in said
    assert "flight flt_" in said
    over_stdio = [json.loads(line) for line in said.splitlines() if line.startswith('{"jsonrpc"')]
    assert [answer.get("id") for answer in over_stdio] == [1, 2, 3, None]
    assert over_stdio[0]["result"]["serverInfo"]["name"] == "layover"
    assert "- tester" in over_stdio[1]["result"]["content"][0]["text"]
    assert over_stdio[2]["error"]["code"] == -32602
    assert over_stdio[3]["error"]["code"] == -32700


def test_the_port_is_the_same_after_a_restart_and_no_secret_is_on_disk(daemon: Daemon, held: Pass) -> None:
    assert post(held, LIST).status_code == 200
    daemon.kill()
    for path in daemon.state.rglob("*"):
        if path.is_file():
            assert held.token.encode() not in path.read_bytes(), path
    daemon.start()
    assert f":{(daemon.state / 'http.port').read_text().strip()}/" in held.url
