"""Telling a person: what is told, how often, and that it never holds anybody up."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from tower.core.records import Event
from tower.core.states import HeldReason
from tower.engine import notices
from tower.engine.notices import AGAIN_SEC, WAITING, Notices
from tower.engine.tower import Tower

from .scripted import Scene, agent, idle, later

pytestmark = pytest.mark.anyio

COMMAND = ("notify", "--me")


class Command:
    """In the place of the command; it takes as long as the test says."""

    def __init__(self, scene: Scene) -> None:
        self.told: list[dict[str, Any]] = []
        self.takes = 0.0
        self.environ: dict[str, str] = {}
        scene.patch.setattr(notices, "run_bounded", self)

    async def __call__(self, argv: tuple[str, ...], *, given: bytes, env: dict[str, str], seconds: float) -> str | None:
        assert argv == COMMAND
        self.environ = env
        self.told.append(json.loads(given))
        await anyio.sleep(self.takes)
        return "it ended with exit code 1" if self.takes else None


@asynccontextmanager
async def hearing(tower: Tower) -> AsyncIterator[Notices]:
    """The notices of a tower, as the daemon wires them."""
    made = Notices(tower)
    tower.bus.on_event(made.hear)
    tower.tasks.start_soon(made.tell)
    yield made
    made._sender.close()
    await idle()
    made._receiver.close()


def held(tower: Tower, of: str = "coder", reason: HeldReason = HeldReason.AGENT) -> Event:
    return tower.event("flight.held", agent=of, reason=reason)


async def test_what_wants_a_person_is_told_with_all_that_names_it(scene: Scene) -> None:
    command = Command(scene)
    secret = {"API_KEY": "s3cr3t", "LANG": "C"}
    async with scene.tower(agent("thinker", context_budget=1), notify=COMMAND, environ=secret) as tower, hearing(tower):
        flight = await scene.flight(await scene.send("thinker"))
        (told,) = command.told
        assert (told["format"], told["type"], told["flight"]) == (1, "flight.held", flight.id)
        assert (told["agent"], told["itinerary"], told["run"]) == ("thinker", flight.itinerary, None)
        assert told["data"] == {"reason": "over-budget", "words": flight.reason}
        assert "API_KEY" not in command.environ
        assert command.environ["LANG"] == "C"


async def test_the_same_thing_is_told_once_in_a_while(scene: Scene) -> None:
    command = Command(scene)
    async with scene.tower(notify=COMMAND) as tower, hearing(tower) as made:
        for event in (held(tower), held(tower), held(tower, "tester"), held(tower, reason=HeldReason.DISK)):
            made.hear(event)
        await idle()
        assert len(command.told) == 3
        await later(AGAIN_SEC - 1)
        made.hear(held(tower))
        await idle()
        assert len(command.told) == 3
        await later(1)
        made.hear(held(tower))
        await idle()
        assert len(command.told) == 4


@pytest.mark.parametrize(("type_", "reason"), [("flight.queued", None), ("flight.held", HeldReason.GROUND_STOP)])
async def test_what_a_person_knows_or_need_not_know_is_not_told(
    scene: Scene, type_: str, reason: HeldReason | None
) -> None:
    command = Command(scene)
    async with scene.tower(notify=COMMAND) as tower, hearing(tower) as made:
        made.hear(tower.event(type_, reason=reason))
        await idle()
        assert command.told == []


async def test_a_slow_command_holds_nobody_up_and_what_does_not_fit_is_dropped(scene: Scene) -> None:
    command = Command(scene)
    command.takes = 30
    async with scene.tower(notify=COMMAND) as tower, hearing(tower) as made:
        made.hear(held(tower, "first"))
        await idle()
        for number in range(WAITING + 5):
            made.hear(held(tower, f"agent-{number}"))
        await later(30 * (WAITING + 10))
        assert len(command.told) == 1 + WAITING


async def test_without_a_command_nothing_is_kept_and_nothing_run(scene: Scene) -> None:
    command = Command(scene)
    async with scene.tower() as tower, hearing(tower) as made:
        made.hear(held(tower))
        await later(1)
        assert command.told == []
