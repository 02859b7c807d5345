"""The reference for people against the schema: every accepted key, nothing else, and the defaults."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic_core import PydanticUndefined

from tower.config.known import NOT_YET
from tower.config.load import load
from tower.config.tables import SECTIONS, TOP, accepted_keys
from tower.core.chain import ChainState
from tower.core.placeholders import IN_COMMANDS
from tower.core.routes import JoinKind
from tower.core.runner_spec import FORMS

from .conftest import GOOD, Loads

DOCUMENT = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text()
AGENTS = ("coder", "tester", "reviewer", "merger")
HEADINGS = {
    "layover": "## `[layover]`",
    "defaults": "## `[defaults]`",
    "runners.*": "## `[runners.NAME]`",
    "agents.*": "## `[agents.NAME]`",
    "routes.*": "## `[[routes]]`",
    "tiers": "## `[tiers]`",
    "pipelines.*": "## `[pipelines.NAME]`",
    "reserve": "## `[reserve]`",
    "rates.*": "## `[rates.MODEL]`",
    "copilot": "## `[copilot]`",
}


def rows(section: str) -> dict[str, str]:
    """Key -> default, as the reference has them."""
    _, _, behind = DOCUMENT.partition(HEADINGS[section] + "\n")
    text = re.split(r"^## ", behind, flags=re.MULTILINE)[0]
    return dict(re.findall(r"^\| `([a-z_]+)` \| (.*?) \|", text, re.MULTILINE))


@pytest.mark.parametrize("section", HEADINGS)
def test_the_reference_has_every_accepted_key_and_no_other(section: str) -> None:
    documented = rows(section)
    if section == "runners.*":
        documented.pop("none")  # a spec, in the table below the keys
    assert sorted(documented) == sorted(accepted_keys(section))


def written(value: Any) -> str | None:
    """A default as the reference writes it; None where it is told in words."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return f"{value:.15g}"
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, tuple):
        return f"[{', '.join(map(str, map(written, value)))}]"
    return "{}" if value == {} else None


@pytest.mark.parametrize("section", HEADINGS)
def test_the_reference_has_the_right_defaults(section: str) -> None:
    documented = rows(section)
    for name, info in SECTIONS[section].model_fields.items():
        cell = documented[info.alias or name]
        default = info.get_default(call_default_factory=True)
        if default is PydanticUndefined:
            assert cell == "required"
        elif section == "agents.*" and name in SECTIONS["defaults"].model_fields:
            assert cell in ("from `[defaults]`", "joined with `[defaults]`", "its history, else `[defaults]`")
        elif text := written(default):
            assert cell == f"`{text}`"


def test_the_reference_has_every_spec_and_placeholder() -> None:
    assert all(f"`{form}`" in DOCUMENT for form in FORMS)
    assert all(f"`{{{name}}}`" in DOCUMENT for name in IN_COMMANDS)


def test_no_key_is_both_accepted_and_refused() -> None:
    assert NOT_YET.keys() == {"", *SECTIONS}
    for section, later in NOT_YET.items():
        assert later.keys().isdisjoint(accepted_keys(section) if section else TOP)


EXAMPLES = re.findall(r"```toml\n(.*?)```", DOCUMENT, re.DOTALL)

AROUND = {
    "[runners.mine]": 'command = ["a", "{model}", "{effort}"]\nassume_usd = 0',
    "[runners.other]": 'command = ["a", "{model}"]',
    **{f"[agents.{name}]": 'description = "d"\nrunner = "mine"\nprompt = "x"\nentry = true' for name in AGENTS},
}
"""What an example in the reference is a part of, unless it says so itself."""


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda text: text.split("\n")[0])
def test_every_example_in_the_reference_is_sound(loads: Loads, tmp_path: Path, example: str) -> None:
    for folder in (".git", "agents", "workspace/.git"):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    (tmp_path / "runners.toml").write_text('[runners.third]\ncommand = ["a"]\n')
    (tmp_path / "agents" / "fifth.toml").write_text(GOOD.replace("solo", "fifth"))
    is_whole = "[layover]" in example and "[agents." in example
    around = "" if is_whole else "".join(f"\n{head}\n{it}\n" for head, it in AROUND.items() if head not in example)
    loaded = loads(example + around, {"MY_AGENT_API_KEY": "x", "PATH": os.environ["PATH"]}, coder="Write.")
    assert [str(problem) for problem in loaded.problems] == []


@pytest.mark.parametrize("section", HEADINGS)
def test_every_table_has_an_example(section: str) -> None:
    _, _, behind = DOCUMENT.partition(HEADINGS[section] + "\n")
    text = re.split(r"^## ", behind, flags=re.MULTILINE)[0]
    (written, *_) = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    table = section.removesuffix(".*")
    assert re.search(rf"^\[+{table}[.\]]", written, re.MULTILINE)


@pytest.mark.parametrize("section", sorted(SECTIONS.keys() - HEADINGS.keys()))
def test_the_keys_of_tables_in_tables_are_told(section: str) -> None:
    _, _, behind = DOCUMENT.partition(HEADINGS[f"{section.split('.', maxsplit=1)[0]}.*"] + "\n")
    text = re.split(r"^## ", behind, flags=re.MULTILINE)[0]
    assert [key for key in accepted_keys(section) if not re.search(rf"`{key}`|{key} = ", text)] == []


@pytest.mark.parametrize("folder", ["config", "config/loop"])
def test_the_example_factories_are_sound(folder: str) -> None:
    loaded = load(Path(__file__).parents[2] / folder, environ={"PATH": os.environ["PATH"]})
    assert [str(problem) for problem in loaded.problems] == []


def test_the_message_in_the_reference_is_what_is_said(loads: Loads) -> None:
    (problem,) = loads(
        "[agents.tester]\nrunner = 'none'\nprompt = 'x'\nentry = true\ndescription = 'd'\ntimeout_sec = 0"
    ).problems
    assert f"{problem.key}: {problem.sentence}; {problem.hint}" in DOCUMENT


@pytest.mark.parametrize(("section", "key"), [(section, key) for section, later in NOT_YET.items() for key in later])
def test_each_later_key_is_refused_with_what_holds_until_then(loads: Loads, section: str, key: str) -> None:
    header = {"": "", "routes.*": "[[routes]]\nfrom = 'a'\nto = 'a'\n", "runners.*": "[runners.x]\ncommand = ['c']\n"}
    text = header.get(section, f"[{section.replace('*', 'a')}]\n") + f"{key} = 1\n"
    found = [it for it in loads(text).problems if it.key.endswith(key)]
    assert [it.sentence for it in found] == ["is not available yet"]
    assert found[0].hint.startswith("remove it; for now: ")


CHAINS = (Path(__file__).parents[2] / "docs" / "chains.md").read_text()


@pytest.mark.parametrize("example", re.findall(r"```toml\n(.*?)```", CHAINS, re.DOTALL))
def test_the_examples_of_chains_are_sound(loads: Loads, example: str) -> None:
    names = ("analyst", "coder", "tester", "reviewer", "researcher")
    agents = "".join(f'[agents.{name}]\nrunner = "none"\nprompt = "x"\nentry = true\n' for name in names)
    build = "" if "[pipelines.build]" in example else '[pipelines.build]\nentry = "analyst"\n'
    assert [str(it) for it in loads(f"{agents}{build}{example}").problems if it.is_error] == []


def test_every_state_of_a_chain_is_told() -> None:
    told = re.findall(r"^\| `([a-z]+)` \|", CHAINS.partition("## How a chain stands")[2], re.MULTILINE)
    assert sorted(told) == sorted(ChainState)


def test_every_kind_of_join_is_told() -> None:
    assert {f'| `"{kind}"` |' in CHAINS for kind in JoinKind if kind is not JoinKind.QUORUM} == {True}
