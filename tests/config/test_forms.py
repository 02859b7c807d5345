from __future__ import annotations

from pathlib import Path

import pytest

from tower.config.forms import Role, SkillCard, names_file, persona_text, role_of, skill_of
from tower.config.texts import Fault, Text
from tower.core.factory import Position

from .conftest import GOOD, Loads


@pytest.mark.parametrize(
    ("value", "is_file"),
    [
        ("who.md", True),
        ("a b/who.md", True),
        ("You are blunt.", False),
        ("Read who.md\nfirst.md", False),
        ("who.txt", False),
    ],
)
def test_one_line_that_ends_in_md_names_a_file(value: str, is_file: bool) -> None:
    assert names_file(value) is is_file


@pytest.mark.parametrize(
    ("text", "persona"),
    [
        ("  You are blunt.\n", "You are blunt."),
        ("# Notes\n\n## Else\nx\n", "# Notes\n\n## Else\nx"),
        (
            "# Persona: Ada\nignored\n\n## Persona\nExact.\n\n## Notes\nnot this\n\n## Communication Style\nShort.\n",
            "# Persona: Ada\n\n## Persona\nExact.\n\n## Communication Style\nShort.",
        ),
        ("## background\nOld.\n", "## background\nOld."),
        ("# Persona: Ada\n\n## Persona\n\n## Background\n \n", ""),
        ("", ""),
    ],
)
def test_a_persona_file_is_its_sections_or_all_of_it(text: str, persona: str) -> None:
    assert persona_text(text) == persona


@pytest.mark.parametrize(
    ("text", "role"),
    [
        ("Build it.\n", "Build it."),
        ("---\nname: dev\ndescription: d\nposition: participant\n---\nBuild it.\n", "Build it."),
        ("---\n---\nBuild it.\n", "Build it."),
        ("---\nno end\n", "---\nno end"),
        ("text\n---\nname: x\n---\n", "text\n---\nname: x\n---"),
    ],
)
def test_a_role_file_is_its_body(text: str, role: str) -> None:
    found = role_of(Text(path=Path("r.md"), text=text))
    assert isinstance(found, Role)
    assert found.body.strip() == role


def test_a_role_file_says_who_it_is_and_its_lines_keep_their_numbers() -> None:
    text = "---\nname: dev\nposition: orchestrator\ndescription: Builds\n---\nBuild it.\n"
    found = role_of(Text(path=Path("r.md"), text=text))
    assert found == Role(
        path=Path("r.md"),
        body="\n" * 5 + "Build it.\n",
        name="dev",
        description="Builds",
        position=Position.ORCHESTRATOR,
    )


@pytest.mark.parametrize(
    ("front", "sentence", "line"),
    [
        ("name: 12", "has a name that is no text", 2),
        ("1: a", "has unknown front matter", 1),
        ("name: x\nposition: Orchestrator", "has an unknown position", 3),
        ("name: x\ntools: []", "has unknown front matter, tools", 3),
        ("- a", "has unknown front matter", 1),
        ("name: x\na: [", "is not YAML", 4),
        ("name: !!python/object:x {}", "is not YAML", 2),
        ("x" * 5000, "is too long", 1),
        ("[" * 4000, "is not YAML", 1),
    ],
)
def test_front_matter_that_is_refused(loads: Loads, tmp_path: Path, front: str, sentence: str, line: int) -> None:
    (found,) = loads(GOOD + "role = 'r.md'\n", r=f"---\n{front}\n---\nBuild it.\n").problems
    assert str(found).startswith(f"{tmp_path}/r.md:{line}:1: agents.solo.role: ")
    assert sentence in found.sentence


SKILL = "---\nname: git\ndescription: For commits\nrequires-tools: [Bash]\nlicense: MIT\n---\n# Git\n"


def test_a_skill_says_what_it_is_for_and_keys_of_other_programs_are_left_to_them() -> None:
    path = Path("/f/git/SKILL.md")
    assert skill_of(Text(path=path, text=SKILL)) == SkillCard(
        path=path, name="git", description="For commits", requires_tools=("Bash",)
    )


@pytest.mark.parametrize(
    ("text", "sentence", "line"),
    [
        ("# Git\n", "has no front matter", "# Git"),
        (SKILL.replace("git", "hg"), "is the skill 'hg' in a folder 'git'", "name: hg"),
        (SKILL.replace("name: git\n", ""), "has no name, in a folder 'git'", "---"),
        (SKILL.replace("For commits", ""), "has no description", "---"),
        (SKILL.replace("[Bash]", "Bash"), "no list of names", "requires-tools"),
        (SKILL.replace("For commits", "[a]"), "has a description that is no text", "description"),
    ],
)
def test_a_skill_that_is_refused(text: str, sentence: str, line: str) -> None:
    found = skill_of(Text(path=Path("/f/git/SKILL.md"), text=text))
    assert isinstance(found, Fault)
    assert sentence in found.sentence
    assert found.path == Path("/f/git/SKILL.md")
    assert text.split("\n")[found.line - 1].startswith(line)
