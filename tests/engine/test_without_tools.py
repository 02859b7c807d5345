"""A run whose program was told of the tower's tools and does not ask for them is marked; another is not."""

from __future__ import annotations

import pytest

from tower.core.factory import Runner, ToolWiring

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
