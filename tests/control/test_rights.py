"""A run may send, and nothing else: every other verb is for people, and says so."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator
from typing import Any, get_type_hints

import pytest
from engine.scripted import Scene, agent

from tower.control import Control
from tower.core.callers import Caller
from tower.core.errors import RefusedError

from .verbs import verbs

pytestmark = pytest.mark.anyio

GROUPS = ("factory", "flights", "itineraries", "runs")
OPEN_TO_RUNS = {("flights", "send")}


def every_verb() -> list[tuple[str, str]]:
    """Group and name of each verb there is."""
    kinds = get_type_hints(Control)
    return [
        (group, name)
        for group in GROUPS
        for name, verb in inspect.getmembers(kinds[group], inspect.isfunction)
        if not name.startswith("_")
    ]


def test_there_are_verbs_to_test() -> None:
    assert len(every_verb()) > 20
    assert set(every_verb()) > OPEN_TO_RUNS


@pytest.mark.parametrize(("group", "name"), sorted(set(every_verb()) - OPEN_TO_RUNS))
async def test_a_run_is_never_taken_for_a_person(scene: Scene, group: str, name: str) -> None:
    async with scene.tower(agent("coder")):
        flight = await scene.send("coder")
        run = await scene.run(flight)
        caller = Caller(name="coder", run=run.id)
        before = await scene.events()
        with pytest.raises(RefusedError) as refused:
            await call(getattr(getattr(verbs(scene), group), name), caller, run.id)
        assert refused.value.code == "person-only"
        assert f"coder asks from within run {run.id}" in refused.value.sentence
        assert await scene.events() == before
        assert (await scene.flight(flight)).state == "running"


async def call(verb: Any, caller: Caller, run: str) -> None:
    """Call a verb with something for each argument that it must have."""
    given = {"text": run, "name": "coder", "body": "go", "why": "so", "stream": "stdout"}
    wanted = [
        parameter
        for parameter in inspect.signature(verb).parameters.values()
        if parameter.name != "caller" and parameter.default is parameter.empty
    ]
    answer = verb(caller, **{parameter.name: given.get(parameter.name, 0) for parameter in wanted})
    if isinstance(answer, AsyncIterator):
        await anext(answer)
    else:
        await answer
