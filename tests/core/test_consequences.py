"""What going over to another generation would do to each agent."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tower.core.consequences import Change, Consequence, ProcessChange, consequences
from tower.core.factory import Agent, Factory, Runner, Settings
from tower.core.prompts import Prompt

PLAIN = Agent(name="a", runner="mine", instructions=Prompt(), work_dir="/w")
KEPT = replace(PLAIN, name="r", resident=True)
FACTORY = Factory(
    path="/f",
    digest="",
    settings=Settings(state_dir="/s", work_dir="/w", socket="/s/sock"),
    agents={"a": PLAIN, "r": KEPT},
    runners={"mine": Runner(name="mine", kind="command", command=("x",), protocol="jsonl")},
)
BOTH = {
    "a": Consequence(agent="a", change=Change.UNTOUCHED, process=None),
    "r": Consequence(agent="r", change=Change.UNTOUCHED, process=ProcessChange.KEPT),
}


def agents(**changed: Agent | None) -> Factory:
    merged = {**FACTORY.agents, **changed}
    return replace(FACTORY, agents={name: it for name, it in merged.items() if it is not None})


def runner(**changes: object) -> Factory:
    return replace(FACTORY, runners={"mine": replace(FACTORY.runners["mine"], **changes)})


def consequence(agent: str, change: Change, process: ProcessChange | None = None) -> Consequence:
    return Consequence(agent=agent, change=change, process=process)


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        (FACTORY, ()),
        (replace(FACTORY, generation=2, digest="other"), ()),
        (agents(a=replace(PLAIN, origins={"model": "agent"})), ()),
        (agents(a=replace(PLAIN, model="m")), (consequence("a", Change.CHANGED),)),
        (agents(a=None), (consequence("a", Change.REMOVED),)),
        (agents(b=replace(PLAIN, name="b")), (consequence("b", Change.ADDED),)),
        (agents(r=replace(KEPT, timeout_sec=1.0)), (consequence("r", Change.CHANGED, ProcessChange.KEPT),)),
        (agents(r=replace(KEPT, args=("x",))), (consequence("r", Change.CHANGED, ProcessChange.REPLACED),)),
        (agents(r=replace(KEPT, resident=False)), (consequence("r", Change.CHANGED, ProcessChange.ENDED),)),
        (agents(r=replace(KEPT, enabled=False)), (consequence("r", Change.CHANGED, ProcessChange.ENDED),)),
        (agents(r=None), (consequence("r", Change.REMOVED, ProcessChange.ENDED),)),
        (agents(a=replace(PLAIN, resident=True)), (consequence("a", Change.CHANGED, ProcessChange.STARTED),)),
        (
            agents(s=replace(KEPT, name="s")),
            (consequence("s", Change.ADDED, ProcessChange.STARTED),),
        ),
        (
            runner(command=("y",)),
            (consequence("a", Change.CHANGED), consequence("r", Change.CHANGED, ProcessChange.REPLACED)),
        ),
        (
            runner(max_concurrent=3),
            (consequence("a", Change.CHANGED), consequence("r", Change.CHANGED, ProcessChange.KEPT)),
        ),
    ],
)
def test_what_becomes_of_agents(new: Factory, expected: tuple[Consequence, ...]) -> None:
    found = {it.agent: it for it in consequences(FACTORY, new)}
    assert found == {**BOTH, **{it.agent: it for it in expected}}


def test_the_removed_come_last() -> None:
    assert [it.agent for it in consequences(FACTORY, agents(a=None, b=replace(PLAIN, name="b")))] == ["r", "b", "a"]
