from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tower.core.errors import InvalidError
from tower.core.runner_spec import FORMS, PRESETS, parse_spec


@pytest.mark.parametrize(
    ("spec", "kind", "command", "detail"),
    [
        ("cmd:./agent.sh", "cmd", ("./agent.sh",), ""),
        ("cmd: tr a-z A-Z | tee out:put", "cmd", ("tr a-z A-Z | tee out:put",), ""),
        ("fake:scripts/calm.yaml", "fake", (), "scripts/calm.yaml"),
        ("unavailable:quota is used up: back at 9", "unavailable", (), "quota is used up: back at 9"),
        ("none", "none", (), ""),
    ],
)
def test_a_spec_becomes_a_runner_named_by_itself(spec: str, kind: str, command: tuple[str, ...], detail: str) -> None:
    runner = parse_spec(spec)
    assert (runner.name, runner.kind, runner.command, runner.detail) == (spec, kind, command, detail)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("suffix", ["", ":some-model", "@high", ":vendor/model:1@high", ":"])
def test_a_preset_is_recognised_and_not_available_yet(preset: str, suffix: str) -> None:
    with pytest.raises(InvalidError, match="not available yet") as caught:
        parse_spec(preset + suffix)
    assert caught.value.code == "runner-not-yet"


@pytest.mark.parametrize(
    "spec",
    ["", "claud", "claudette", "cmd", "cmd:", "cmd:   ", "fake:", "unavailable:", "none:x", "NONE", " none", "ssh:x"],
)
def test_anything_else_is_refused_with_every_known_form(spec: str) -> None:
    with pytest.raises(InvalidError) as caught:
        parse_spec(spec)
    assert caught.value.code == "runner-unknown"
    assert caught.value.sentence.startswith("cannot ")
    assert all(form in caught.value.hint for form in (*FORMS, *PRESETS))


@given(st.text(max_size=40))
def test_any_text_is_a_runner_or_a_refusal(spec: str) -> None:
    runner = None
    with contextlib.suppress(InvalidError):
        runner = parse_spec(spec)
    assert runner is None or runner.name == spec
