"""Which mechanism holds a run, and what is said about it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tower.core.confinement import CACHES, Abilities, Layer, Mechanism, confine
from tower.core.factory import Access, Agent, Runner
from tower.core.prompts import Prompt

ALL = Abilities(bubblewrap="/usr/bin/bwrap", no_bubblewrap="", no_overlay="", landlock=7, no_landlock="")
NO_OVERLAY = replace(ALL, no_overlay="the kernel refuses an overlay")
LANDLOCK = replace(ALL, bubblewrap=None, no_bubblewrap="the program bwrap is not installed", no_overlay="no")
OLD_LANDLOCK = replace(LANDLOCK, landlock=2, no_landlock="the kernel has ABI 2")
RUNNER = Runner(name="tool", kind="command", command=("/opt/bin/claude", "-p"))


def agent(**changes: Any) -> Agent:
    return Agent(name="a", runner="tool", instructions=Prompt(), work_dir="/live", **changes)


def reader(**changes: Any) -> Agent:
    return agent(access=Access.READ_ONLY, **changes)


@pytest.mark.parametrize(
    ("who", "can", "mechanism", "layer"),
    [
        (agent(), ALL, Mechanism.BUBBLEWRAP, None),
        (reader(), ALL, Mechanism.BUBBLEWRAP, Layer.OVERLAY),
        (reader(), NO_OVERLAY, Mechanism.BUBBLEWRAP, Layer.COPY),
        (reader(snapshot_writes="deny"), ALL, Mechanism.BUBBLEWRAP, Layer.SHARED),
        (reader(snapshot_writes="keep"), ALL, Mechanism.BUBBLEWRAP, Layer.COPY),
        (reader(resident=True), ALL, Mechanism.BUBBLEWRAP, Layer.COPY),
        (agent(), LANDLOCK, Mechanism.LANDLOCK, None),
        (reader(), LANDLOCK, Mechanism.LANDLOCK, Layer.COPY),
        (reader(snapshot_writes="deny"), LANDLOCK, Mechanism.LANDLOCK, Layer.SHARED),
        (reader(), OLD_LANDLOCK, Mechanism.NONE, Layer.COPY),
        (reader(snapshot_writes="deny"), OLD_LANDLOCK, Mechanism.NONE, Layer.COPY),
        (reader(sandbox="off"), ALL, Mechanism.NONE, Layer.COPY),
        (reader(), Abilities(), Mechanism.NONE, Layer.COPY),
    ],
)
def test_the_strongest_that_can_be_had(who: Agent, can: Abilities, mechanism: Mechanism, layer: Layer | None) -> None:
    held = confine(who, RUNNER, can)
    assert (held.mechanism, held.layer, held.refusal) == (mechanism, layer, None)


def test_a_program_with_a_sandbox_of_its_own_is_not_put_into_landlock() -> None:
    own = replace(RUNNER, own_sandbox=True)
    assert confine(agent(), own, ALL).mechanism is Mechanism.BUBBLEWRAP
    held = confine(agent(sandbox="require"), own, LANDLOCK)
    assert held.mechanism is Mechanism.NONE
    assert "runner tool has a sandbox of its own" in (held.refusal or "")


def test_what_is_required_and_not_there_is_a_refusal_with_all_reasons() -> None:
    refusal = confine(agent(sandbox="require"), RUNNER, OLD_LANDLOCK).refusal or ""
    assert "the program bwrap is not installed" in refusal
    assert "the kernel has ABI 2" in refusal
    assert "agents.a.sandbox" in refusal


def test_a_writer_may_fill_caches_and_a_known_program_has_its_settings() -> None:
    assert set(CACHES) < set(confine(agent(), RUNNER, ALL).home_writable)
    assert confine(reader(), RUNNER, ALL).home_writable[0] == ".claude"
    assert confine(reader(), Runner(name="x", kind="cmd", command=("claude",)), ALL).home_writable == ()


@pytest.mark.parametrize(
    ("who", "can", "said"),
    [
        (agent(), Abilities(), "could write to anything"),
        (agent(sandbox_writable=("/x",)), Abilities(), "sandbox_writable means nothing"),
        (agent(), LANDLOCK, "chmod"),
        (agent(), replace(LANDLOCK, is_root=True), "the tower runs as root"),
        (reader(snapshot_writes="deny"), Abilities(), "needs a sandbox"),
        (agent(network=False), LANDLOCK, "network = false needs bubblewrap"),
    ],
)
def test_what_cannot_be_enforced_is_said(who: Agent, can: Abilities, said: str) -> None:
    assert any(said in words for words in confine(who, RUNNER, can).advisory)


def test_what_is_enforced_is_said_and_nothing_is_said_against_it() -> None:
    held = confine(reader(network=False, sandbox_writable=("/x",)), RUNNER, ALL)
    assert held.advisory == ()
    text = "\n".join(held.enforced)
    for words in ("the live tree cannot be written", "/x, and nowhere else", "no network", "a layer of its own"):
        assert words in text
    assert not held.network
    assert "environment and memory" not in "\n".join(confine(agent(), RUNNER, replace(LANDLOCK, is_root=True)).enforced)
