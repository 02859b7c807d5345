"""A rehearsal replaces every runner, and is refused when its script cannot be followed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tower.config.load import load
from tower.config.rehearsal import rehearsal_runner, rehearse
from tower.core.errors import InvalidError


def test_every_agent_gets_the_runner_and_loses_the_model_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    (tmp_path / "layover.toml").write_text(
        '[runners.real]\ncommand = ["agent", "--model", "{model}"]\n'
        '[agents.a]\nrunner = "real"\nmodel = "m"\nprompt = "p"\nentry = true\n'
        '[agents.b]\nrunner = "cmd:true"\nprompt = "p"\nentry = true\n'
    )
    (tmp_path / "s.toml").write_text('[[call]]\nsteps = [{ say = "done" }]\n')
    factory = load(tmp_path, environ={}).factory
    assert factory is not None
    rehearsed = rehearse(factory, rehearsal_runner("fake:s.toml", tmp_path))
    assert {agent.runner for agent in rehearsed.agents.values()} == {"fake:s.toml"}
    assert {agent.model for agent in rehearsed.agents.values()} == {None}
    assert rehearsed.runners["fake:s.toml"].detail == str(tmp_path / "s.toml")
    assert rehearsed.runners.keys() >= factory.runners.keys()


@pytest.mark.parametrize(("spec", "stays"), [("fake:s.toml", True), ("cmd:cat", False)])
def test_a_resident_stays_one_where_the_runner_can(tmp_path: Path, spec: str, stays: bool) -> None:
    (tmp_path / "workspace").mkdir()
    (tmp_path / "s.toml").write_text('[[call]]\nsteps = [{ say = "done" }]\n')
    (tmp_path / "layover.toml").write_text(
        '[runners.real]\ncommand = ["agent"]\nprotocol = "jsonl"\n'
        '[agents.a]\nrunner = "real"\nprompt = "p"\nentry = true\nresident = true\n'
    )
    factory = load(tmp_path, environ={}).factory
    assert factory is not None
    assert factory.residents == ("a",)
    rehearsed = rehearse(factory, rehearsal_runner(spec, tmp_path))
    assert rehearsed.residents == (("a",) if stays else ())


@pytest.mark.parametrize(
    ("spec", "said"),
    [("nonsense", "neither declared nor a spec"), ("fake:gone.toml", "was not found"), ("fake:bad.toml", "[[call]]")],
)
def test_what_cannot_be_rehearsed_with_is_refused(tmp_path: Path, spec: str, said: str) -> None:
    (tmp_path / "bad.toml").write_text("")
    with pytest.raises(InvalidError) as caught:
        rehearsal_runner(spec, tmp_path)
    assert said in str(caught.value)
