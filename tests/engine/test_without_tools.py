"""Tools are made ready for programs that were told of them; a run that does not ask is marked, and no other."""

from __future__ import annotations

import pytest

from tower.core.factory import Runner, ToolWiring
from tower.engine import offering

from .scripted import Scene, agent, later

pytestmark = pytest.mark.anyio

WIRED = Runner(name="wired", kind="command", command=("true",), mcp=ToolWiring(format="claude_json"))
QUIET = Runner(name="quiet", kind="command", command=("true",), mcp=ToolWiring(format="none"))


@pytest.mark.parametrize(
    ("runner", "asks", "marked"), [(WIRED, False, True), (WIRED, True, False), (QUIET, False, False)]
)
async def test_who_is_marked(scene: Scene, runner: Runner, asks: bool, marked: bool) -> None:
    async with scene.tower(agent("coder", runner=runner.name, mcp_grace_sec=20.0), runners=[runner]) as tower:
        tower.mcp_url = "http://127.0.0.1:1/mcp"
        flight = await scene.send("coder")
        keeper = await scene.keeper(flight)
        run = await scene.run(flight)
        if asks:
            tower.live[run.id].has_tools.set()
        await later(19)
        assert not any("has no tools" in note for note in (await scene.run(flight)).notes)
        await later(2)
        assert any("has no tools of the tower" in note for note in (await scene.run(flight)).notes) is marked
        assert (keeper.folder / "mcp.json").exists() is (runner is WIRED)
        await keeper.exits(0)


async def test_a_run_that_ends_before_is_not_marked(scene: Scene) -> None:
    async with scene.tower(agent("coder", runner="wired"), runners=[WIRED]):
        flight = await scene.send("coder")
        await (await scene.keeper(flight)).exits(0)
        await later(30)
        assert not any("has no tools" in note for note in (await scene.run(flight)).notes)


async def test_a_restart_remembers_who_has_asked_and_waits_anew_for_the_others(scene: Scene) -> None:
    coder = agent("coder", runner="wired", mcp_grace_sec=20.0)
    async with scene.tower(coder, runners=[WIRED]) as tower:
        one, two = await scene.send("coder"), await scene.send("coder")
        asked, silent = (await scene.run(one)).id, (await scene.run(two)).id
        offering.asked(tower, tower.live[asked])
        await later(1)
        assert (await scene.run(one)).tools_at is not None
    async with scene.tower(coder, runners=[WIRED]) as tower:
        assert tower.live[asked].has_tools.is_set()
        assert not tower.live[silent].has_tools.is_set()
        await later(21)
        assert not any("has no tools" in note for note in (await scene.run(one)).notes)
        assert any("has no tools" in note for note in (await scene.run(two)).notes)
    async with scene.tower(coder, runners=[WIRED]):
        await later(21)
        told = [event for event in await scene.events() if event.type == "run.without-tools"]
        assert [event.run for event in told] == [silent]
        for flight in (one, two):
            await (await scene.keeper(flight)).exits(0)


async def test_tools_are_made_ready_for_programs_that_will_ask_and_for_nobody_else(scene: Scene) -> None:
    factory = (agent("coder", runner="quiet"), agent("wired", runner="wired"))
    async with scene.tower(*factory, runners=[QUIET, WIRED]) as tower:
        quiet = await scene.send("coder")
        assert not tower.tools_wanted.is_set()
        flight = await scene.send("wired")
        assert tower.tools_wanted.is_set()
        await (await scene.keeper(quiet)).exits(0)
    async with scene.tower(*factory, runners=[QUIET, WIRED]) as tower:
        assert tower.tools_wanted.is_set()  # the run that was found alive will ask
        await (await scene.keeper(flight)).exits(0)
    async with scene.tower(*factory, runners=[QUIET, WIRED]) as tower:
        assert not tower.tools_wanted.is_set()
