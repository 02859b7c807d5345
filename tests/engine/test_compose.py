"""What a run is told and given before it is claimed, and what stands in its way."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from tower.core.factory import Access, Position, Runner, ToolWiring
from tower.core.prompts import Condition, Passage, Prompt
from tower.core.states import HeldReason
from tower.engine import compose, holds
from tower.engine import preview as previews
from tower.engine.tower import Tower

from .scripted import ANN, Scene, agent, later

pytestmark = pytest.mark.anyio


def payload(folder: Path) -> str:
    return (folder / "payload.md").read_text()


async def test_a_missing_variable_holds_and_is_named_with_the_key_that_declared_it(scene: Scene) -> None:
    needs = agent("coder", env_from={"API_KEY": "agents.coder.env_from", "LANG": "agents.coder.env_from"})
    async with scene.tower(needs, environ={"LANG": "C"}) as tower:
        flight = await scene.flight(await scene.send("coder"))
        assert flight.held_reason == HeldReason.ENVIRONMENT
        assert flight.reason == (
            "cannot give coder its environment: API_KEY (declared by agents.coder.env_from) is not set;"
            " set it where the tower is started and restart, or put it among its credentials"
        )
        assert tower.live == {}


async def test_a_declaration_that_can_never_be_met_says_that_it_must_change(scene: Scene) -> None:
    async with scene.tower(agent("coder", env={"TOWER_X": "1"})):
        flight = await scene.flight(await scene.send("coder"))
        assert flight.held_reason == HeldReason.ENVIRONMENT
        assert (flight.reason or "").endswith("change what is declared, or its value")


async def test_a_payload_that_equals_its_budget_passes_and_one_token_more_does_not(scene: Scene) -> None:
    async with scene.tower(agent("coder")):
        estimate = (await scene.run(await scene.send("coder"))).estimate_tokens or 0
    async with scene.tower(agent("coder", context_budget=estimate)):
        assert (await scene.flight(await scene.send("coder"))).state == "running"
    async with scene.tower(agent("coder", context_budget=estimate - 1)):
        held = await scene.flight(await scene.send("coder"))
        assert held.held_reason == HeldReason.OVER_BUDGET
        assert f"some {estimate} tokens" in (held.reason or "")
        assert f"({estimate - 1})" in (held.reason or "")


async def test_a_missing_program_holds_and_is_looked_for_again(scene: Scene) -> None:
    program = scene.tree / "bin" / "robot"
    runner = Runner(name="robot", kind="command", command=("robot",))
    environ = {"PATH": str(program.parent)}
    async with scene.tower(agent("coder", runner="robot"), runners=[runner], environ=environ, also=[holds.watch]):
        flight = await scene.send("coder")
        held = await scene.flight(flight)
        assert held.held_reason == HeldReason.QUOTA
        assert "cannot find the program robot" in (held.reason or "")
        await later(300)
        assert (await scene.flight(flight)).state == "held"
        install(program)
        await later(compose.PROGRAM_PAUSE_SEC + holds.LOOK_SEC)
        assert (await scene.flight(flight)).state == "running"
        assert len(await scene.runs(flight)) == 1


async def test_a_program_named_by_a_relative_path_is_looked_for_where_the_run_works(scene: Scene) -> None:
    runner = Runner(name="robot", kind="command", command=("./bin/robot",))
    async with scene.tower(agent("coder", runner="robot"), runners=[runner]):
        assert (await scene.flight(await scene.send("coder"))).held_reason == HeldReason.QUOTA
        install(scene.tree / "bin" / "robot")
        assert (await scene.flight(await scene.send("coder"))).state == "running"


def install(program: Path) -> None:
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)


async def test_only_a_recovery_has_a_handover(scene: Scene) -> None:
    async with scene.tower(agent("coder")):
        flight = await scene.send("coder", "mind the gap")
        first = await scene.keeper(flight)
        await first.prints("half done\n")
        await first.vanishes()
        await later(10)
        second = await scene.keeper(flight)
        assert second is not first
        told, told_again = payload(first.folder), payload(second.folder)
        assert "## Tower: handover" not in told
        assert "## Tower: handover" in told_again
        assert first.plan.run in told_again
        assert "half done" in told_again
        assert told.rstrip().endswith("mind the gap")
        assert told_again.rstrip().endswith("mind the gap")


async def test_a_handover_tells_what_every_earlier_run_had_sent(scene: Scene) -> None:
    async with scene.tower(agent("coder"), agent("tester"), routes=["coder -> tester"]):
        flight = await scene.send("coder")
        for body in ("the first word", "the second word"):
            await scene.send("tester", body, run=await scene.run(flight))
            await (await scene.keeper(flight)).vanishes()
            await later(60)
        told = payload((await scene.keeper(flight)).folder)
        assert "the first word" in told
        assert "the second word" in told


async def test_the_token_is_given_to_the_program_and_stands_nowhere_else(scene: Scene) -> None:
    async with scene.tower(agent("coder"), agent("tester"), routes=["coder -> tester"]) as tower:
        flight = await scene.send("coder")
        keeper = await scene.keeper(flight)
        token = keeper.plan.env["LAYOVER_RUN_TOKEN"]
        assert token in keeper.plan.secrets
        assert token not in tower.redaction.apply(f"a line with {token} in it")
        assert (await scene.run(flight)).token_sha256 == hashlib.sha256(token.encode()).hexdigest()
        files = [path for path in scene.state.root.rglob("*") if path.is_file()]
        assert {"payload.md", "argv.json", "tower.db-wal"} <= {path.name for path in files}
        assert [path for path in files if token.encode() in path.read_bytes()] == []
        await keeper.exits(0)
        assert tower.redaction.apply(token) == token


async def test_what_is_executed_is_shown_with_the_names_of_its_variables_and_without_values(scene: Scene) -> None:
    needs = agent("coder", env_from={"API_KEY": "agents.coder.env_from"}, env={"COLOUR": "never-shown"}, model="m-1")
    async with scene.tower(needs, environ={"API_KEY": "never-shown"}):
        keeper = await scene.keeper(await scene.send("coder"))
        shown = json.loads((keeper.folder / "argv.json").read_text())
        assert shown["argv"] == list(keeper.plan.argv) == ["/bin/sh", "-c", "true"]
        assert {"API_KEY", "COLOUR", "LAYOVER_RUN_ID", "LAYOVER_RUN_TOKEN"} <= set(shown["environment"])
        assert "never-shown" not in json.dumps(shown)
        assert keeper.plan.env["API_KEY"] == "never-shown"
        assert keeper.plan.env["LAYOVER_MODEL"] == "m-1"
        assert keeper.plan.env["LAYOVER_RUN_NUMBER"] == "1"


async def test_peers_are_promised_only_while_a_hop_is_left(scene: Scene) -> None:
    agents = agent("coder"), agent("tester", description="tests things"), agent("idler", enabled=False)
    async with scene.tower(*agents, routes=["coder -> tester", "coder -> idler", "tester -> coder"], max_hops=2):
        first = await scene.send("coder")
        told = payload((await scene.keeper(first)).folder)
        assert "- tester: tests things" in told
        assert "idler" not in told
        last = await scene.send("tester", run=await scene.run(first))
        assert (await scene.flight(last)).hops_remaining == 0
        assert "You can hand work on" not in payload((await scene.keeper(last)).folder)


async def test_an_orchestrator_is_shown_who_there_is(scene: Scene) -> None:
    lead = agent("lead", position=Position.ORCHESTRATOR)
    others = agent("tester", description="tests things"), agent("idler", enabled=False)
    async with scene.tower(lead, *others, routes=["tester -> lead"]):
        told = payload((await scene.keeper(await scene.send("lead"))).folder)
        assert "no right to send:\n\n- tester: tests things\n\n" in told
        assert "all the agents" not in payload((await scene.keeper(await scene.send("tester"))).folder)


async def test_a_run_whose_program_is_wired_to_the_tools_is_told_of_them(scene: Scene) -> None:
    wired, deaf = (
        Runner(name=form, kind="command", command=("true",), mcp=ToolWiring(format=form)) for form in ("env", "none")
    )
    agents = agent("coder", runner="env"), agent("tester", runner="none"), agent("other")
    async with scene.tower(*agents, runners=[wired, deaf]) as tower:
        told = {
            name: payload((await scene.keeper(await scene.send(name, "do it"))).folder) for name in ("coder", "other")
        }
        assert "The tower offers you these tools" in told["coder"]
        assert "layover_memory_write" in told["coder"]
        assert "layover_" not in told["other"]
        assert preview(scene, tower, "coder") == told["coder"]
        assert "layover_" not in preview(scene, tower, "tester")


async def test_what_a_run_was_told_by_is_on_its_record(scene: Scene) -> None:
    passages = (
        Passage(text="Always.\n", file="/p.md"),
        Passage(text="Deep.\n", file="/deep.md", when=frozenset({Condition(flag="deep")})),
    )
    prompt = Prompt(passages=passages, digests={"/p.md": "1", "/deep.md": "2"})
    async with scene.tower(agent("coder", instructions=prompt)):
        run = await scene.run(await scene.send("coder"))
        assert run.prompt_files == {"/p.md": "1"}
        assert run.prompt_sha256 == hashlib.sha256(b"Always.\n").hexdigest()


async def test_memory_is_told_from_its_end_and_an_agents_trick_with_it_is_not_followed(scene: Scene) -> None:
    memory = scene.state.hangar("coder") / "memory.md"
    memory.parent.mkdir()
    memory.write_text("forgotten " * 100 + "remembered")
    async with scene.tower(agent("coder", memory_bytes=20)):
        told = payload((await scene.keeper(await scene.send("coder"))).folder)
        assert "only the last 20 of 1010 bytes" in told
        assert "remembered" in told
        memory.unlink()
        (scene.tree / "secret").write_text("the secret of another")
        memory.symlink_to(scene.tree / "secret")
        assert "secret" not in payload((await scene.keeper(await scene.send("coder"))).folder)
        memory.unlink()
        memory.mkdir()
        assert "your memory" not in payload((await scene.keeper(await scene.send("coder"))).folder)


async def test_a_preview_is_what_a_run_is_told(scene: Scene) -> None:
    async with scene.tower(agent("coder"), agent("tester"), routes=["coder -> tester"]) as tower:
        keeper = await scene.keeper(await scene.send("coder", "do it"))
        shown = preview(scene, tower, "coder")
        assert shown == payload(keeper.folder)


async def test_a_preview_of_a_reader_names_the_place_that_its_snapshot_would_have(scene: Scene) -> None:
    reader = agent("reader", access=Access.READ_ONLY, role="works in {workspace}")
    async with scene.tower(reader) as tower:
        assert f"works in {scene.state.snapshots}/run_000" in preview(scene, tower, "reader")


def preview(scene: Scene, tower: Tower, name: str) -> str:
    return previews.preview(tower.factory, name, "do it", hangars=scene.state.hangars, person=ANN.name)


async def test_a_home_is_found_even_where_the_tower_has_none(scene: Scene) -> None:
    def nobody(_: int) -> None:
        raise KeyError

    scene.patch.setattr("pwd.getpwuid", nobody)
    async with scene.tower(agent("coder"), environ={"HOME": ""}):
        keeper = await scene.keeper(await scene.send("coder"))
        home = Path(keeper.plan.env["HOME"])
        assert home.parent == scene.state.root
        assert home.stat().st_mode & 0o777 == 0o700


async def test_a_credential_file_stands_in_for_a_variable_and_its_line_end_is_no_part_of_it(scene: Scene) -> None:
    folder = scene.tree / "credentials"
    folder.mkdir()
    (folder / "API_KEY").write_text("s3cr3t\n")
    needs = agent("coder", env_from={"API_KEY": "agents.coder.env_from"})
    async with scene.tower(needs, environ={"CREDENTIALS_DIRECTORY": str(folder)}):
        keeper = await scene.keeper(await scene.send("coder"))
        assert keeper.plan.env["API_KEY"] == "s3cr3t"
        assert "s3cr3t" in keeper.plan.secrets
        assert "CREDENTIALS_DIRECTORY" not in keeper.plan.env


async def test_what_is_asked_of_a_model_reaches_the_program_and_the_record(scene: Scene) -> None:
    mine = Runner(
        name="mine",
        kind="command",
        command=("true", "--effort", "{effort}", "--context", "{context}"),
        efforts={"max": "ultra"},
    )
    asks = agent("coder", runner="mine", model="m", effort="max", tier="light", context="1m")
    async with scene.tower(asks, runners=[mine]):
        flight = await scene.send("coder")
        run, plan = await scene.run(flight), (await scene.keeper(flight)).plan
        assert plan.argv == ("true", "--effort", "ultra", "--context", "1m")
        assert {name: plan.env[f"LAYOVER_{name}"] for name in ("MODEL", "EFFORT", "TIER", "CONTEXT")} == {
            "MODEL": "m",
            "EFFORT": "max",
            "TIER": "light",
            "CONTEXT": "1m",
        }
        assert (run.effort, run.effort_sent, run.tier, run.context) == ("max", "ultra", "light", "1m")


async def test_a_runner_may_give_each_agent_a_home_of_its_own(scene: Scene) -> None:
    """B029: with `config_home = "per-agent"` a program finds no settings and tool servers of a person."""
    private = Runner(name="mine", kind="command", command=("true",), private_home=True)
    environ = {"XDG_CONFIG_HOME": "/nowhere/.config"}
    async with scene.tower(agent("coder", runner="mine"), agent("plain"), runners=[private], environ=environ):
        env = (await scene.keeper(await scene.send("coder"))).plan.env
        home = Path(env["HOME"])
        assert home == scene.state.hangar("coder") / "home"
        assert home.stat().st_mode & 0o777 == 0o700
        assert "XDG_CONFIG_HOME" not in env
        env = (await scene.keeper(await scene.send("plain"))).plan.env
        assert (env["HOME"], env["XDG_CONFIG_HOME"]) == ("/nowhere", "/nowhere/.config")


async def test_a_program_that_prints_that_its_quota_is_gone_uses_up_no_attempt(scene: Scene) -> None:
    mine = Runner(name="mine", kind="command", command=("true",), unavailable_patterns=("usage limit",))
    async with scene.tower(agent("coder", runner="mine"), runners=[mine]):
        flight = await scene.send("coder")
        keeper = await scene.keeper(flight)
        await keeper.prints("You hit your usage limit.\n", "stderr")
        await keeper.exits(0)
        held, run = await scene.flight(flight), await scene.run(flight)
        assert (held.held_reason, held.attempt) == (HeldReason.QUOTA, 1)
        assert (run.outcome, run.reason) == ("unavailable", "the program printed: You hit your usage limit.")
