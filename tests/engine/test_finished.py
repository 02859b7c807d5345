"""A program that has printed its final result and stays: when it is asked to end, and when not."""

from __future__ import annotations

import json

import pytest

from tower.core.factory import Runner
from tower.core.outcome import DONE
from tower.core.states import Outcome

from .scripted import Scene, agent, later

pytestmark = pytest.mark.anyio

CLAUDE = Runner(name="mine", kind="command", command=("true",), output="claude")
RESULT = json.dumps({"type": "result", "subtype": "success", "is_error": False, "result": "42", "total_cost_usd": 0.5})
GRACE = 20.0
CODER = agent("coder", runner="mine")


def factory() -> dict[str, object]:
    return {"runners": [CLAUDE], "grace_sec": GRACE}


async def test_it_is_ended_after_the_grace_and_judged_by_its_result(scene: Scene) -> None:
    async with scene.tower(CODER, **factory()):
        flight = await scene.send("coder")
        keeper = await scene.keeper(flight)
        await keeper.prints(f'{{"type": "system"}}\n{RESULT}\n')
        await later(GRACE - 1)
        assert keeper.asked == []
        await later(2)
        assert keeper.asked == [DONE]
        run = await scene.run(flight)
        assert (run.outcome, run.interruption, run.cost, run.cost_source) == (
            Outcome.SUCCEEDED,
            None,
            500_000,
            "reported",
        )
        assert "it had printed its result and did not end; the tower ended it" in run.notes
        assert (await scene.flight(flight)).state == "landed"
        scene.assert_free()


async def test_a_program_that_goes_by_itself_is_left_alone(scene: Scene) -> None:
    async with scene.tower(CODER, **factory()):
        flight = await scene.send("coder")
        keeper = await scene.keeper(flight)
        await keeper.prints(f"{RESULT}\n")
        await later(GRACE / 2)
        await keeper.exits(0)
        run = await scene.run(flight)
        assert (keeper.asked, run.outcome) == ([], Outcome.SUCCEEDED)
        assert not any("did not end" in note for note in run.notes)


async def test_one_that_goes_on_printing_has_not_hung_and_one_without_a_result_has_limits(scene: Scene) -> None:
    async with scene.tower(CODER, **factory()):
        keeper = await scene.keeper(await scene.send("coder"))
        for _ in range(5):
            await keeper.prints('{"type": "assistant"}\n')
            await later(GRACE - 1)
        await later(10 * GRACE)
        assert keeper.asked == []
        await keeper.prints(f"{RESULT}\n")
        for _ in range(3):  # noise beside it does not put it off
            await keeper.prints("reconnecting\n", "stderr")
            await later(GRACE / 2)
        assert keeper.asked == [DONE]


async def test_the_next_tower_goes_on_waiting(scene: Scene) -> None:
    async with scene.tower(CODER, **factory()):
        flight = await scene.send("coder")
        await (await scene.keeper(flight)).prints(f"{RESULT}\n")
    async with scene.tower(CODER, **factory()):
        keeper = await scene.keeper(flight)
        await keeper.prints("")
        await later(GRACE + 1)
        assert keeper.asked == [DONE]
        assert (await scene.run(flight)).outcome == Outcome.SUCCEEDED


async def test_a_plain_program_may_say_what_it_likes(scene: Scene) -> None:
    async with scene.tower(agent("coder"), grace_sec=GRACE):
        keeper = await scene.keeper(await scene.send("coder"))
        await keeper.prints(f"{RESULT}\n")
        await later(10 * GRACE)
        assert keeper.asked == []
