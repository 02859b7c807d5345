from __future__ import annotations

from pathlib import Path

import pytest

from tower.config.texts import Fault, Library, Text

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
        (b"one\n\n@include b.md\n", "p.md:3:1: agents.solo.prompt_file: includes b.md, which leads outside"),
    ],
)
def test_a_bad_prompt_file_is_pointed_at(loads: Loads, tmp_path: Path, content: bytes, problem: str) -> None:
    (tmp_path / "p.md").write_bytes(content)
    (found,) = loads(FILE).problems
    assert str(found).startswith(f"{tmp_path}/{problem}")
