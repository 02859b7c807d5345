from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tower.core.factory import OnStop, Settings

from .conftest import GOOD, Loads


def settings_of(loads: Loads, text: str, environ: dict[str, str]) -> Settings:
    loaded = loads(text + GOOD, environ)
    assert [str(problem) for problem in loaded.problems] == []
    assert loaded.factory is not None
    return loaded.factory.settings


@pytest.mark.parametrize(
    ("variable", "text", "field", "value"),
    [
        ("SOCKET", "/run/t.sock", "socket", "/run/t.sock"),
        ("SOCKET", "20", "socket", "{folder}/20"),
        ("SOCKET_GROUP", "daemon", "socket_group", "daemon"),
        ("SOCKET_GROUP", "", "socket_group", None),
        ("ON_STOP", "leave", "on_stop", OnStop.LEAVE),
        ("GRACE_SEC", "3", "grace_sec", 3.0),
        ("GRACE_SEC", "1m", "grace_sec", 60.0),
        ("MAX_LOG_MB", "1", "max_log_bytes", 1 << 20),
        ("ALLOWED_DIRS", '["/usr", "x"]', "allowed_dirs", ("/usr", "{folder}/x")),
        ("UMASK", "027", "umask", "027"),
        ("UMASK", "", "umask", None),
        ("RETENTION_DAYS", "0", "retention_days", 0),
        ("PROMPT_DIR", "/usr", "prompt_dir", "/usr"),
    ],
)
def test_a_variable_beats_the_file_and_is_named_as_the_origin(
    loads: Loads, tmp_path: Path, variable: str, text: str, field: str, value: Any
) -> None:
    written = "[layover]\nsocket = 's'\nsocket_group = 'root'\ngrace_sec = 1\nmax_log_mb = 9\nallowed_dirs = []\n"
    settings = settings_of(loads, written, {f"TOWER_LAYOVER__{variable}": text})
    if isinstance(value, str):
        value = value.format(folder=tmp_path)
    elif isinstance(value, tuple):
        value = tuple(it.format(folder=tmp_path) for it in value)
    assert getattr(settings, field) == value
    assert settings.origins[f"layover.{variable.lower()}"] == f"environment TOWER_LAYOVER__{variable}"


@pytest.mark.parametrize(
    ("variable", "text", "sentence", "hint"),
    [
        ("TOWER_LAYOVER__GRACE_SEC", "-1", "must be at least 0", "from 0"),
        ("TOWER_LAYOVER__GRACE_SEC", "soon", "must be a duration", '"15m"'),
        ("TOWER_LAYOVER__GRACE_SEC", "nan", "must be a finite number", "ordinary"),
        ("TOWER_LAYOVER__MAX_LOG_MB", "1\nx = 2", "must be a whole number", "such as 3"),
        ("TOWER_LAYOVER__MAX_LOG_MB", "[" * 5000, "must be a whole number", "such as 3"),
        ("TOWER_LAYOVER__ON_STOP", "leeve", "must be one of", '"leave"?'),
        ("TOWER_LAYOVER__ALLOWED_DIRS", "/usr", "must be a list", "["),
        ("TOWER_LAYOVER__SOKET", "x", "is not a known key", "socket?"),
        ("TOWER_LAYOVER__HTTP_ADDR", "tower.lan:80", "must begin with an IP address", "127.0.0.1:0"),
        ("TOWER_LAYOVER__PUBLIC_HOSTS", '["http://x"]', "must be the name of a host", "tower.lan"),
    ],
)
def test_a_bad_variable_is_a_problem_of_the_environment(
    loads: Loads, variable: str, text: str, sentence: str, hint: str
) -> None:
    loaded = loads("[layover]\non_stop = 'stop'\n" + GOOD, {variable: text})
    (problem,) = loaded.problems
    assert loaded.factory is None
    assert (problem.file, problem.line, problem.column, problem.key) == ("environment", 0, 0, variable)
    assert str(problem).startswith(f"environment: {variable}: {sentence}")
    assert hint in problem.hint


def test_only_layover_can_be_overridden_and_a_try_is_noticed(loads: Loads) -> None:
    loaded = loads(
        GOOD, {"TOWER_DEFAULTS__RUNNER": "none", "TOWER_CONFIG": "x", "TOWER_FAILPOINTS": "", "PATH": "/bin"}
    )
    (problem,) = loaded.problems
    assert (problem.key, problem.severity) == ("TOWER_DEFAULTS__RUNNER", "warning")


def test_a_file_cannot_reach_the_settings_of_the_settings(loads: Loads) -> None:
    """Names that mean something to the library are keys like any other here."""
    loaded = loads("[layover]\n_env_file = '/etc/passwd'\n_cli_parse_args = true\ntable = {}\nenviron = {}\n" + GOOD)
    assert [(it.line, it.sentence) for it in loaded.problems] == [(line, "is not a known key") for line in (2, 3, 4, 5)]


def test_the_process_environment_is_not_read(loads: Loads, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TOWER_LAYOVER__GRACE_SEC", "77")
    monkeypatch.setenv("GRACE_SEC", "78")
    monkeypatch.setenv("STATE_DIRECTORY", "/nowhere")
    settings = settings_of(loads, "", {})
    assert (settings.grace_sec, settings.state_dir) == (20.0, str(tmp_path / ".layover"))
