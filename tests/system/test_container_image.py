"""The shipped image: what can be said of it without building it."""

import re
from pathlib import Path

import pytest

DOCKERFILE = Path(__file__).parents[2] / "Dockerfile"


@pytest.fixture
def steps() -> list[tuple[str, str]]:
    """Instruction and arguments, continuation lines joined, comments left out."""
    lines = [line for line in DOCKERFILE.read_text().splitlines() if not line.lstrip().startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    return [(name, rest.strip()) for line in joined.splitlines() if line for name, _, rest in [line.partition(" ")]]


def only(steps: list[tuple[str, str]], name: str) -> str:
    (found,) = [rest for step, rest in steps if step == name]
    return found


def environment(steps: list[tuple[str, str]]) -> dict[str, str]:
    return dict(pair.split("=", 1) for pair in only(steps, "ENV").split())


def test_two_stages_on_a_slim_base(steps: list[tuple[str, str]]) -> None:
    name, _, base = only(steps, "ARG").partition("=")
    assert base.endswith("-slim")
    assert [rest for step, rest in steps if step == "FROM"] == [f"${{{name}}} AS build", f"${{{name}}}"]
    assert not [rest for name, rest in steps if name == "COPY" and "--from=build" not in rest and "tests" in rest]


def test_no_secret_is_in_a_layer(steps: list[tuple[str, str]]) -> None:
    assert not [rest for name, rest in steps if name == "ADD"]
    # Values of the build's arguments stay in the image's history.
    assert only(steps, "ARG").startswith("BASE=")
    assert not re.search(r"(?i)(api_?key|token|password|secret)\s*=", DOCKERFILE.read_text())
    assert "FAILPOINTS" not in DOCKERFILE.read_text()


def test_not_root_and_by_number(steps: list[tuple[str, str]]) -> None:
    """A cluster that forbids root can only check a number."""
    assert re.fullmatch(r"[1-9]\d*:\d+", only(steps, "USER"))


def test_it_is_told_to_stop_in_order(steps: list[tuple[str, str]]) -> None:
    assert only(steps, "STOPSIGNAL") == "SIGTERM"
    told = environment(steps)
    assert told["TOWER_LAYOVER__ON_STOP"] == "stop"
    assert 0 < float(told["TOWER_LAYOVER__GRACE_SEC"]) < 8


def test_state_is_in_a_volume(steps: list[tuple[str, str]]) -> None:
    volume = only(steps, "VOLUME")
    told = environment(steps)
    for name in ("TOWER_LAYOVER__STATE_DIR", "TOWER_LAYOVER__SOCKET", "TOWER_SOCKET"):
        assert told[name].startswith(f"{volume}/")
    assert told["TOWER_SOCKET"] == told["TOWER_LAYOVER__SOCKET"]
    assert told["HOME"] == volume


def test_orphans_are_reaped_and_signals_arrive(steps: list[tuple[str, str]]) -> None:
    assert only(steps, "ENTRYPOINT") == '["tini", "--", "tower"]'
    assert only(steps, "CMD") == '["serve"]'
    assert any("git" in rest and "tini" in rest for name, rest in steps if name == "RUN")


def test_health_is_liveness_alone(steps: list[tuple[str, str]]) -> None:
    assert only(steps, "HEALTHCHECK").endswith('CMD ["tower", "status", "--health"]')
