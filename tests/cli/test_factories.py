"""The verbs that read a configuration file without a tower: `validate`, `explain` and `prompt`."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tower.cli import exits
from tower.core.confinement import BEYOND

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


@pytest.mark.parametrize("verb", [["validate"], ["explain"], ["prompt", "writer"]])
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


BUILD = (
    GOOD
    + """\
env_from = ["MY_KEY"]
timeout_sec = "10m"

[agents.tester]
description = "Tests."
runner = "cmd:cat"
access = "read-only"
recovery = "manual"
prompt = '''
Test it.
@include(deep) deep.md
'''

[pipelines.build]
entry = "tester"
body = "Test the last change."
flags = { deep = {} }
agents.tester.model = "large"

[[routes]]
from = "tester"
to = "writer"
"""
)


@pytest.fixture
def build(config: Path) -> Path:
    """A factory with a pipeline whose agent tests a flag."""
    (config.parent / "workspace" / ".git").mkdir()
    (config.parent / "prompts").mkdir()
    (config.parent / "prompts" / "deep.md").write_text("Look twice.\n")
    config.write_text(BUILD)
    return config


def test_prompt_in_a_chain_of_a_pipeline(cli: Cli, build: Path) -> None:
    plain = cli("prompt", "tester", "-p", "build").out
    assert "Test it.\n\n## Tower: " in plain
    assert plain.endswith("Test the last change.\n")
    deep = cli("prompt", "tester", "-p", "build", "--flag", "deep", "Only this.").out
    assert "Test it.\nLook twice.\n\n## Tower: " in deep
    assert deep.endswith("Only this.\n")
    assert cli("prompt", "tester", "-p", "build", "--flag", "deep=false").out == plain


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["-p", "biuld"], "cannot find a pipeline called 'biuld'\n  did you mean build?"),
        (["-p", "build", "--flag", "depp"], "pipeline build does not declare it"),
        (["--flag", "deep"], "flags belong to a pipeline"),
        (["-p", "build", "--flag", "deep=maybe"], "'maybe' is neither true nor false"),
    ],
)
def test_prompt_in_a_chain_that_there_cannot_be(cli: Cli, build: Path, args: list[str], words: str) -> None:
    result = cli("prompt", "tester", *args)
    assert (result.code != exits.DONE, result.out) == (True, "")
    assert words in result.err


def test_a_factory_is_explained_in_sentences(cli: Cli, build: Path) -> None:
    result = cli("explain")
    assert result.code == exits.DONE
    told = result.out.replace(f"{build.parent}/", "").split("\n\n")
    assert told[0] == (
        "layover.toml describes 2 agents. A person may send to writer."
        " The pipeline build begins at tester, with flags: deep (off unless said)."
    )
    assert told[1] == (
        "writer (Writes) works in the live tree workspace; its runner is cmd:cat. It takes messages from tester and a"
        " person. A chain that begins at it may spend $5.00 (its Fuel). It may send to nobody."
        " Work of it that was cut off is started again."
    )
    assert told[2] == (
        "tester (Tests) works in a snapshot of workspace; its runner is cmd:cat. It takes messages from the pipeline"
        " build. A chain that begins at it may spend $5.00 (its Fuel). It may send to writer."
        " Work of it that was cut off waits for a person (`tower recover`)."
    )
    assert told[3].endswith("All chains together may spend $100.00 in 24 h (the Reserve).")
    assert told[-1].startswith("Not set now: MY_KEY. ")


def test_an_agent_is_explained_value_by_value(cli: Cli, build: Path) -> None:
    lines = cli("explain", "writer").out.replace(f"{build.parent}/", "").splitlines()
    assert lines[0] == "writer: Writes"
    assert {"runner\tagent\tcmd:cat", "timeout_sec\tagent\t600", "stall_sec\tbuilt in\tnone"} <= set(lines)
    assert "prompt\tagent\t24 bytes from the configuration" in lines
    assert "work_dir\tlayover.work_dir\tworkspace" in lines
    enforced, advisory = lines.index("Enforced:"), lines.index("Not enforced:")
    assert "- a run is ended after 600 s" in lines[enforced:advisory]
    assert f"- {BEYOND}" in lines[advisory:]
    assert lines[-1] == "MY_KEY\tmissing\tagents.writer.env_from"


def test_an_agent_is_explained_as_a_pipeline_has_it(cli: Cli, build: Path) -> None:
    values = json.loads(cli("explain", "tester", "--json", "-p", "build").out)["values"]
    assert values["model"] == {"value": "large", "origin": "pipeline build"}
    assert json.loads(cli("explain", "tester", "--json").out)["values"]["model"]["value"] is None
    assert cli("explain", "-p", "build").code == exits.USAGE


def test_a_variable_that_is_set_is_never_shown(cli: Cli, build: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "s3cr3t-value")
    for args in (["explain"], ["explain", "writer"], ["explain", "writer", "--json"]):
        shown = cli(*args).out
        assert "s3cr3t" not in shown
        assert "missing" not in shown
    (variable,) = json.loads(cli("explain", "writer", "--json").out)["variables"]
    assert variable == {"name": "MY_KEY", "declared_by": "agents.writer.env_from", "is_set": True}


def test_every_agent_is_explained_as_a_document(cli: Cli, build: Path) -> None:
    document = json.loads(cli("explain", "--json").out)
    assert [it["name"] for it in document["agents"]] == ["writer", "tester"]
    assert document["agents"][1]["ways_in"] == ["build"]
    assert document["agents"][1]["sends_to"] == ["writer"]


def test_explain_for_nobody(cli: Cli, build: Path) -> None:
    result = cli("explain", "writre")
    assert (result.code, "did you mean writer?" in result.err) == (exits.FAILED, True)
