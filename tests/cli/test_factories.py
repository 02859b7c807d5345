"""The verbs that read a configuration file without a tower: `validate` and `prompt`."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tower.cli import exits

from .conftest import TOWER, Cli

GOOD = """\
[agents.writer]
description = "Writes"
prompt = "Write what you are told."
runner = "cmd:cat"
entry = true
"""
WARNED = GOOD.replace('description = "Writes"\n', "")
BAD = GOOD + 'tiemout_sec = 3\n[agents.tester]\nprompt = "x"\nrunner = "cmd:cat"\ntimeout_sec = 0\n'


@pytest.fixture
def config(nowhere: Path) -> Path:
    (nowhere / "workspace").mkdir()
    return nowhere / "layover.toml"


def test_a_good_file(cli: Cli, config: Path) -> None:
    config.write_text(GOOD)
    result = cli("validate", "--strict")
    assert (result.code, result.out) == (exits.DONE, "")
    assert result.err.endswith("0 errors, 0 warnings\n")


def test_all_errors_are_listed_with_their_places(cli: Cli, config: Path) -> None:
    config.write_text(BAD)
    result = cli("validate")
    assert result.code == exits.CONFIGURATION
    assert ":6:1: agents.writer.tiemout_sec: " in result.out
    assert ":10:1: agents.tester.timeout_sec: " in result.out
    assert "2 errors" in result.err


def test_warnings_are_an_error_only_when_asked(cli: Cli, config: Path) -> None:
    config.write_text(WARNED)
    assert cli("validate").code == exits.DONE
    result = cli("validate", "--strict")
    assert result.code == exits.FAILED
    assert "warning:" in result.out


def test_validate_as_json(cli: Cli, config: Path) -> None:
    config.write_text(BAD)
    result = cli("validate", "--json")
    document = json.loads(result.out)
    assert result.code == exits.CONFIGURATION
    assert (document["format"], document["path"], document["ok"]) == (1, str(config), False)
    assert {"file", "line", "column", "key", "sentence", "hint", "severity"} == set(document["problems"][0])


@pytest.mark.parametrize("verb", [["validate"], ["prompt", "writer"]])
def test_a_file_that_is_not_there_is_78(cli: Cli, verb: list[str]) -> None:
    result = cli(*verb, "--config", "none.toml")
    assert result.code == exits.CONFIGURATION
    assert "none.toml" in result.out + result.err


def test_nothing_is_made_by_looking(cli: Cli, config: Path) -> None:
    config.write_text(GOOD)
    cli("validate")
    cli("prompt", "writer", "hello")
    assert sorted(path.name for path in config.parent.iterdir()) == ["layover.toml", "workspace"]


def test_prompt_prints_what_a_run_would_be_told_and_nothing_else(cli: Cli, config: Path) -> None:
    config.write_text(GOOD)
    result = cli("prompt", "writer", "Buy milk.")
    assert (result.code, result.err) == (exits.DONE, "")
    assert result.out.startswith("You are writer")
    assert "Write what you are told." in result.out
    assert result.out.endswith("Buy milk.\n")


def test_prompt_takes_a_body_as_send_does(cli: Cli, config: Path) -> None:
    config.write_text(GOOD)
    body = config.parent / "b.md"
    body.write_text("Buy\nmilk.\n")
    assert cli("prompt", "writer", f"@{body}").out.endswith("Buy\nmilk.\n")
    done = subprocess.run([*TOWER, "prompt", "writer", "-"], input=b"Buy bread.", capture_output=True, check=True)
    assert done.stdout.endswith(b"Buy bread.\n")


def test_prompt_has_the_memory_of_the_agent(cli: Cli, config: Path) -> None:
    config.write_text(GOOD)
    memory = config.parent / ".layover" / "hangars" / "writer" / "memory.md"
    memory.parent.mkdir(parents=True)
    memory.write_text("milk is out\n")
    assert "milk is out" in cli("prompt", "writer", "x").out


def test_prompt_on_a_bad_file_lists_what_is_wrong(cli: Cli, config: Path) -> None:
    config.write_text(BAD)
    result = cli("prompt", "writer", "x")
    assert (result.code, result.out) == (exits.CONFIGURATION, "")
    assert "tiemout_sec" in result.err


def test_prompt_for_nobody(cli: Cli, config: Path) -> None:
    config.write_text(GOOD)
    result = cli("prompt", "writre", "x")
    assert result.code == exits.FAILED
    assert "did you mean writer? there are: writer" in result.err


def test_a_configuration_is_found_by_its_folder_and_by_the_environment(config: Path) -> None:
    config.write_text(GOOD)
    elsewhere = config.parent / "workspace"
    for args, environ in ((["--config", ".."], {}), ([], {"TOWER_CONFIG": str(config)})):
        done = subprocess.run(
            [*TOWER, "validate", *args],
            cwd=elsewhere,
            env={**os.environ, **environ},
            check=False,
            capture_output=True,
        )
        assert done.returncode == exits.DONE
