from __future__ import annotations

from pathlib import Path

import pytest

from tower.config.texts import Fault, Library, Text, include_directives, names_file, persona_text, role_text

from .conftest import GOOD, Loads

FILE = GOOD.replace('prompt = "x"', "prompt_file = 'p.md'")


def test_prompt_dir_comes_before_the_folder(tmp_path: Path) -> None:
    prompts = tmp_path / "prompts"
    prompts.mkdir()
    (tmp_path / "a.md").write_text("folder")
    (tmp_path / "b.md").write_text("folder")
    (prompts / "a.md").write_text("prompts")
    library = Library(folder=tmp_path, prompt_dir=prompts)
    assert library.read("a.md") == Text(path=prompts / "a.md", text="prompts")
    assert library.read("b.md") == Text(path=tmp_path / "b.md", text="folder")


def test_a_symlink_may_lead_from_one_place_to_the_other_and_nowhere_else(tmp_path: Path) -> None:
    prompts, outside = tmp_path / "f" / "prompts", tmp_path / "outside.md"
    prompts.mkdir(parents=True)
    outside.write_text("secret")
    (tmp_path / "f" / "inside.md").write_text("fine")
    (prompts / "in.md").symlink_to("../inside.md")
    (prompts / "out.md").symlink_to(outside)
    library = Library(folder=tmp_path / "f", prompt_dir=prompts)
    assert isinstance(library.read("in.md"), Text)
    refused = library.read("out.md")
    assert isinstance(refused, Fault)
    assert "leads outside" in refused.sentence


def test_a_text_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("one")
    library = Library(folder=tmp_path, prompt_dir=tmp_path)
    first = library.read("a.md")
    (tmp_path / "a.md").write_text("two")
    assert library.read("a.md") is first
    assert library.texts == (first,)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"fine\ncaf\xe9", "p.md:2:4: agents.solo.prompt_file: is not UTF-8"),
        (b"a\0", "p.md:1:2: agents.solo.prompt_file: holds a NUL byte"),
        (
            b"x" * (1 << 20) + b"x",
            "layover.toml:4:1: agents.solo.prompt_file: names p.md, which is larger than 1048576",
        ),
        (b"one\n\n@include b.md\n", "p.md:3:1: agents.solo.prompt_file: @include is not available yet"),
        (b"@include(!x) 'b.md'\n", "p.md:1:1: agents.solo.prompt_file: @include is not available yet"),
    ],
)
def test_a_bad_prompt_file_is_pointed_at(loads: Loads, tmp_path: Path, content: bytes, problem: str) -> None:
    (tmp_path / "p.md").write_bytes(content)
    (found,) = loads(FILE).problems
    assert str(found).startswith(f"{tmp_path}/{problem}")


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("@include a.md\nx\n@include(flag) b.md\r\n@include", [1, 3, 4]),
        ("text @include a\n  @include b\n@included c\n@Include d", []),
        ("```\n@include a\n```\n@include b", [4]),
        ("~~~~ md\n@include a\n~~~\n```\n@include b\n~~~~~\n@include c", [7]),
        ("```\n@include a\n``` not closing\n@include b", []),
        ("    ```\n@include a", [2]),
        ("one\u2028@include a", []),
    ],
)
def test_include_directives_are_lines_outside_of_code(text: str, lines: list[int]) -> None:
    assert list(include_directives(text)) == lines


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
    assert role_text(Text(path=Path("r.md"), text=text)) == role


@pytest.mark.parametrize(
    ("front", "sentence"),
    [
        ("position: orchestrator", 'position "orchestrator" is not available yet'),
        ("position: Orchestrator", "has an unknown position"),
        ("tools: []", "has unknown front matter"),
        ("- a", "has unknown front matter"),
        ("a: [", "is not YAML"),
        ("name: !!python/object:x {}", "is not YAML"),
        ("x" * 5000, "is too long"),
        ("[" * 4000, "is not YAML"),
    ],
)
def test_front_matter_that_is_refused(loads: Loads, tmp_path: Path, front: str, sentence: str) -> None:
    (found,) = loads(GOOD + "role = 'r.md'\n", r=f"---\n{front}\n---\nBuild it.\n").problems
    assert str(found).startswith(f"{tmp_path}/r.md:1:1: agents.solo.role: ")
    assert sentence in found.sentence
