"""Tools that prompts name."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import GOOD, Loads

FILE = GOOD.replace('prompt = "x"', "prompt_file = 'p.md'")
LOOP = "[[routes]]\nfrom = 'solo'\nto = 'solo'\n"


@pytest.mark.parametrize(
    "text",
    [
        "Use layover_help.",
        "Use mcp__layover__layover_help or `layover_status`.",
        "See layover.toml, LAYOVER_SOCKET, my_layover_, playover_send and layover__x.",
    ],
)
def test_a_prompt_that_names_what_there_is(loads: Loads, text: str) -> None:
    assert loads(FILE, p=f"{text}\n").problems == ()


def test_what_is_no_tool_is_refused_where_it_stands(loads: Loads, tmp_path: Path) -> None:
    (problem,) = loads(FILE, p="Go.\n\nThen layover_sent it.\n").problems
    assert str(problem).replace(f"{tmp_path}/", "") == (
        "p.md:3:1: agents.solo: names layover_sent, which is no tool of the tower; did you mean layover_send?"
    )
    (problem,) = loads(GOOD.replace('"x"', "'''\nGo.\n  Use mcp__tower__layover_frob.\n'''")).problems
    shown = str(problem).replace(f"{tmp_path}/", "")
    assert shown.startswith(
        "layover.toml:6:1: agents.solo.prompt: names layover_frob, which is no tool of the tower; there"
    )


def test_a_file_of_several_agents_is_refused_once(loads: Loads) -> None:
    (problem,) = loads(FILE + FILE.replace("solo", "other"), p="Use layover_frob.\n").problems
    assert problem.is_error


def test_a_tool_without_use_is_warned_about(loads: Loads, tmp_path: Path) -> None:
    (problem,) = loads(FILE, p="Use layover_send.\n").problems
    assert problem.severity == "warning"
    assert str(problem).replace(f"{tmp_path}/", "") == (
        "p.md:1:1: agents.solo: tells solo of layover_send, and no route begins at it;"
        " write a route, or leave the tool out"
    )
    assert loads(FILE + LOOP, p="Use layover_send.\n").problems == ()


def test_names_in_included_files_and_roles_count(loads: Loads, tmp_path: Path) -> None:
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "p.md").write_text("Go.\n@include a.md\n")
    (tmp_path / "prompts" / "a.md").write_text("\nUse layover_frob.\n")
    (problem,) = loads(FILE).problems
    assert str(problem).startswith(f"{tmp_path}/prompts/a.md:2:1: agents.solo: names layover_frob")
    role = GOOD.replace('prompt = "x"', "role = 'r.md'")
    (problem,) = loads(role, r="---\nname: dev\n---\nUse layover_frob.\n").problems
    assert str(problem).startswith(f"{tmp_path}/r.md:4:1: agents.solo: names layover_frob")
