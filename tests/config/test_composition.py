"""Prompts that include others: what they come to, and each way in which they are refused."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tower.config.composition import Composed, Composition
from tower.config.load import Loaded, load
from tower.config.texts import Library, Text
from tower.core.prompts import Prompt

from .conftest import GOOD, Loads

FILE = GOOD.replace('prompt = "x"', "prompt_file = 'p.md'")

Writes = Callable[..., Loaded]


@pytest.fixture
def writes(loads: Loads, tmp_path: Path) -> Writes:
    """Writes files below `prompts/`, `p.md` being the prompt of the only agent, and loads it all."""
    (tmp_path / "prompts").mkdir()

    def writes(files: dict[str, str], text: str = FILE) -> Loaded:
        for name, content in files.items():
            path = tmp_path / "prompts" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        return loads(text)

    return writes


def prompt(loaded: Loaded) -> Prompt:
    assert loaded.problems == ()
    assert loaded.factory is not None
    return loaded.factory.agents["solo"].instructions


def only(loaded: Loaded, tmp_path: Path) -> str:
    assert loaded.factory is None
    (problem,) = loaded.problems
    return str(problem).replace(f"{tmp_path}/", "")


def test_paths_count_from_the_file_that_includes(writes: Writes, tmp_path: Path) -> None:
    files = {
        "p.md": "Begin.\n\n@include shared/rules.md\n\nEnd.\n",
        "shared/rules.md": "\nRules:\n@include ../more.md\n@include deep/last.md\n\n",
        "more.md": "more",
        "shared/deep/last.md": "last\n\n\n",
    }
    found = prompt(writes(files))
    assert found.text({}) == "Begin.\n\nRules:\nmore\nlast\n\nEnd.\n"
    names = {os.path.relpath(path, tmp_path / "prompts"): digest for path, digest in found.files({}).items()}
    assert names == {name: hashlib.sha256(text.encode()).hexdigest() for name, text in files.items()}


def test_a_prompt_of_the_configuration_includes_from_the_prompt_folder(writes: Writes) -> None:
    loaded = writes({"a.md": "A\n"}, GOOD.replace('"x"', "'''\n@include a.md\nthen\n'''"))
    assert prompt(loaded).text({}) == "A\nthen\n"


def test_a_file_may_be_included_by_several(writes: Writes) -> None:
    files = {"p.md": "@include a.md\n@include b.md\n", "a.md": "@include c.md\n", "b.md": "@include c.md\n"}
    assert prompt(writes(files | {"c.md": "c\n"})).text({}) == "c\nc\n"


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        (
            {"p.md": "x\n\n@include a.md\n"},
            "prompts/p.md:3:1: agents.solo.prompt_file: includes a.md, which was not found; tried prompts/a.md",
        ),
        (
            {"p.md": "@include a/b.md\n", "a/b.md": "\n@include c.md\n"},
            "prompts/a/b.md:2:1: agents.solo.prompt_file: includes c.md, which was not found; tried prompts/a/c.md",
        ),
        (
            {"p.md": "@include ../layover.toml\n"},
            "prompts/p.md:1:1: agents.solo.prompt_file: includes ../layover.toml, which leads outside prompts",
        ),
        (
            {"p.md": "@include /etc/passwd\n"},
            "prompts/p.md:1:1: agents.solo.prompt_file: includes /etc/passwd, which leads outside ",
        ),
        (
            {"p.md": "@include p.md\n"},
            "prompts/p.md:1:1: agents.solo.prompt_file: includes p.md, which leads back to itself",
        ),
        (
            {"p.md": "@include a.md\n", "a.md": "a\n@include ./b.md\n", "b.md": "@include p.md\n"},
            "prompts/b.md:1:1: agents.solo.prompt_file: includes p.md, which leads back to itself",
        ),
        (
            {"p.md": "one\n@include a b.md\n"},
            "prompts/p.md:2:1: agents.solo.prompt_file: @include is followed by more than one path; put a path with",
        ),
        (
            {"p.md": "@include(a b) b.md\n"},
            "prompts/p.md:1:1: agents.solo.prompt_file: @include has no flag between its brackets; write",
        ),
        (
            {"p.md": "@include sub\n", "sub/x.md": ""},
            "prompts/p.md:1:1: agents.solo.prompt_file: includes sub, which is not a file",
        ),
        (
            {"p.md": "x\n@include a.md\n@include a.md\n", "a.md": "y" * (1 << 19)},
            "prompts/p.md:3:1: agents.solo.prompt_file: comes to more than 1048576 bytes, or to more than 1000 files",
        ),
        (
            {"p.md": "x\n@include(deep) a.md\n", "a.md": "a\n"},
            "prompts/p.md:2:1: agents.solo: tests the flag deep, which a chain that is sent straight to solo"
            " (entry = true) does not have; every way in that leads to solo has to be a pipeline that declares it",
        ),
        (
            {"p.md": "@include a.md\n", "a.md": "\n \n"},
            "layover.toml:4:1: agents.solo.prompt_file: says nothing; write something that holds in every chain",
        ),
    ],
)
def test_a_prompt_that_is_refused(writes: Writes, tmp_path: Path, files: dict[str, str], problem: str) -> None:
    assert only(writes(files), tmp_path).startswith(problem)


def test_a_text_that_cannot_be_read_is_pointed_at_itself(writes: Writes, tmp_path: Path) -> None:
    (tmp_path / "prompts" / "a.md").write_bytes(b"fine\ncaf\xe9")
    problem = only(writes({"p.md": "@include a.md\n"}), tmp_path)
    assert problem.startswith("prompts/a.md:2:4: agents.solo.prompt_file: is not UTF-8")


def test_links_are_followed_before_it_is_asked_what_lies_inside(writes: Writes, tmp_path: Path) -> None:
    prompts = tmp_path / "prompts"
    (prompts / "real").mkdir()
    (tmp_path / "secret.md").write_text("secret")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "x.md").write_text("secret")
    (prompts / "inside.md").symlink_to("real/a.md")
    (prompts / "out.md").symlink_to(tmp_path / "secret.md")
    (prompts / "folder").symlink_to(tmp_path / "elsewhere")
    assert prompt(writes({"p.md": "@include inside.md\n", "real/a.md": "fine"})).text({}) == "fine\n"
    for name in ("out.md", "folder/x.md", "real/../out.md", "folder/../secret.md"):
        loaded = writes({"p.md": f"@include {name}\n"})
        problem = only(loaded, tmp_path)
        assert problem.startswith("prompts/p.md:1:1: agents.solo.prompt_file: includes ")
        assert f"{name}, which leads outside" in problem
        assert prompts in loaded.watched


def test_a_link_to_itself_is_a_cycle(writes: Writes, tmp_path: Path) -> None:
    (tmp_path / "prompts" / "again.md").symlink_to("p.md")
    assert "leads back to itself" in only(writes({"p.md": "@include again.md\n"}), tmp_path)


def chain(length: int) -> dict[str, str]:
    return {f"{n}.md": f"{n}\n@include {n + 1}.md\n" for n in range(1, length)} | {f"{length}.md": f"{length}\n"}


def test_eight_files_deep_is_deep_enough(writes: Writes, tmp_path: Path) -> None:
    assert prompt(writes({"p.md": "@include 1.md\n", **chain(8)})).text({}).split() == list("12345678")
    text = GOOD.replace('"x"', "'@include 1.md'")
    assert prompt(writes(chain(8), text)).text({}).split() == list("12345678")
    too_deep = "includes 9.md, more than 8 files deep; include less deeply"
    assert only(writes({"p.md": "@include 1.md\n", **chain(9)}), tmp_path) == (
        f"prompts/8.md:2:1: agents.solo.prompt_file: {too_deep}"
    )
    assert only(writes(chain(9), text), tmp_path) == f"prompts/8.md:2:1: agents.solo.prompt: {too_deep}"


def test_what_was_composed_before_is_as_deep_as_ever(writes: Writes, tmp_path: Path) -> None:
    files = {"p.md": "@include 2.md\n@include 1.md\n", **chain(9)}
    problem = only(writes(files), tmp_path)
    assert problem.startswith("prompts/1.md:2:1: agents.solo.prompt_file: includes 2.md, more than 8 files deep")


def test_a_diamond_of_empty_files_does_not_explode(writes: Writes, tmp_path: Path) -> None:
    files = {f"{n}.md": f"@include {n + 1}.md\n" * 100 for n in range(7)} | {"7.md": ""}
    problem = only(writes({"p.md": "x\n@include 0.md\n", **files}), tmp_path)
    assert problem.startswith("prompts/5.md:10:1: agents.solo.prompt_file: comes to more than")


def test_a_problem_of_an_included_file_is_said_once(writes: Writes, tmp_path: Path) -> None:
    other = FILE.replace("solo", "other").replace("p.md", "q.md")
    files = {"p.md": "@include a.md\n", "q.md": "@include a.md\n", "a.md": "@include gone.md\n"}
    assert "includes gone.md" in only(writes(files, FILE + other), tmp_path)


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ("'''\nDo:\n\n@include a.md\n'''", "7:1"),
        ("'''Do:\n  @include a.md\n'''", "5:1"),
        ('"""\\\nDo:\\n@include a.md\n"""', "4:1"),
        ("'@include a.md'", "4:1"),
    ],
)
def test_the_line_of_a_text_in_the_configuration_is_pointed_at(
    writes: Writes, tmp_path: Path, value: str, place: str
) -> None:
    problem = only(writes({}, GOOD.replace('"x"', value)), tmp_path)
    assert problem.startswith(f"layover.toml:{place}: agents.solo.prompt: includes a.md, which was not found")


def test_mending_what_was_missing_is_noticed(writes: Writes, tmp_path: Path) -> None:
    prompts = tmp_path / "prompts"
    (prompts / "a").mkdir()
    loaded = writes({"p.md": "@include a/b/c.md\n@include ../up.md\n"})
    assert {prompts, prompts / "a", tmp_path} <= loaded.watched
    loaded = writes({"p.md": "@include a/b/c.md\n", "a/b/c.md": "here"})
    assert prompt(loaded).text({}) == "here\n"
    assert prompts / "a" / "b" in loaded.watched


def test_the_digest_of_a_factory_tells_of_included_texts(writes: Writes) -> None:
    def digest(text: str) -> str:
        factory = writes({"p.md": "@include a.md\n", "a.md": text}).factory
        assert factory is not None
        return factory.digest

    assert digest("one") != digest("two")
    assert digest("one") == digest("one")


def test_a_role_that_is_the_instructions_may_include(writes: Writes, tmp_path: Path) -> None:
    text = GOOD.replace('prompt = "x"', "role = 'r.md'")
    files = {"r.md": "---\nname: dev\n---\nBuild.\n@include a.md\n", "a.md": "Test.\n"}
    assert prompt(writes(files, text)).text({}).strip() == "Build.\nTest."
    (tmp_path / "prompts" / "a.md").unlink()
    assert only(load(tmp_path / "layover.toml", environ={}), tmp_path).startswith("prompts/r.md:5:1: agents.solo.role:")


@pytest.mark.parametrize(
    ("line", "files", "place"),
    [
        ("role = 'r.md'", {"r.md": "---\nname: x\n---\nBuild.\n@include a.md\n"}, "prompts/r.md:5:1: agents.solo.role"),
        ("role = '''\nBuild.\n@include a.md\n'''", {}, "layover.toml:8:1: agents.solo.role"),
        ("persona = 'p.md'", {"p.md": "Ada\n\n@include a.md\n"}, "prompts/p.md:3:1: agents.solo.persona"),
    ],
)
def test_elsewhere_an_include_is_refused(
    writes: Writes, tmp_path: Path, line: str, files: dict[str, str], place: str
) -> None:
    assert only(writes(files, GOOD + line + "\n"), tmp_path).startswith(f"{place}: @include is for prompts alone")


BUILD = """
[agents.coder]
description = "d"
runner = "none"
prompt_file = "p.md"

[pipelines.build]
entry = "coder"
flags = { deep = {} }
"""
DEEP = {"p.md": "Go.\n\n@include(deep) a.md\n@include(!deep) b.md\n", "a.md": "Dig.", "b.md": "Skim."}


def test_a_flag_that_every_way_in_declares(writes: Writes) -> None:
    loaded = writes(DEEP, BUILD)
    assert loaded.problems == ()
    assert loaded.factory is not None
    found = loaded.factory.agents["coder"].instructions
    assert found.text({"deep": True}) == "Go.\n\nDig.\n"
    assert found.text({"deep": False}) == "Go.\n\nSkim.\n"


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("[pipelines.other]\nentry = 'coder'\n", "a chain of pipeline other does not have; every way in"),
        (
            GOOD
            + "[pipelines.other]\nentry = 'solo'\nflags = { depp = {} }\n[[routes]]\nfrom = 'solo'\nto = 'coder'\n",
            "a chain that is sent straight to solo (entry = true) does not have; did you mean depp?",
        ),
        (
            GOOD.replace("entry = true\n", "") + "[pipelines.other]\nentry = 'solo'\n"
            "[[routes]]\nfrom = 'solo'\nto = 'coder'\nmode = 'spawn'\n",
            "a chain of pipeline other does not have",
        ),
    ],
)
def test_a_flag_that_some_way_in_does_not_declare(writes: Writes, tmp_path: Path, more: str, words: str) -> None:
    lines = [str(problem).replace(f"{tmp_path}/", "") for problem in writes(DEEP, BUILD + more).problems]
    assert len(lines) == 2
    for number, line in enumerate(lines, start=3):
        assert line.startswith(f"prompts/p.md:{number}:1: agents.coder: tests the flag deep, which {words}")


def test_a_way_in_that_leads_elsewhere_does_not_matter(writes: Writes) -> None:
    assert writes(DEEP, BUILD + GOOD).problems == ()
    scoped = "[[routes]]\nfrom = 'solo'\nto = 'coder'\npipelines = ['build']\n"
    assert [it for it in writes(DEEP, BUILD + GOOD + scoped).problems if it.is_error] == []


@pytest.mark.parametrize(
    ("files", "when"),
    [
        ({"p.md": "@include(deep) a.md\n", "a.md": "Dig."}, "says nothing when deep is off"),
        (
            {"p.md": "@include(!deep) a.md\n@include(deep) b.md\n", "a.md": "Dig.", "b.md": ""},
            "nothing when deep is on",
        ),
        (
            {"p.md": "@include(deep) a.md\n", "a.md": "@include(!deep) b.md\n", "b.md": "Never."},
            "says nothing; write something",
        ),
    ],
)
def test_no_run_is_left_without_instructions(writes: Writes, tmp_path: Path, files: dict[str, str], when: str) -> None:
    problem = only(writes(files, BUILD), tmp_path)
    assert problem.startswith("layover.toml:5:1: agents.coder.prompt_file: says nothing")
    assert when in problem


NAMES = ("a.md", "b.md", "sub/c.md", "sub/d.md")
TARGETS = (*NAMES, "c.md", "../a.md", "../../secret.md", "/etc/passwd", "link.md", "gone.md", "sub", '"a b', "x y")
LINE = st.one_of(
    st.sampled_from(["text", "", "```", "~~~", "  indented", "Tower: x"]),
    st.builds(
        "{} {}".format,
        st.sampled_from(["@include", "@include(f)", "@include(!f)", "@include(g)"]),
        st.sampled_from(TARGETS),
    ),
)
FILES = st.fixed_dictionaries({name: st.lists(LINE, max_size=4).map("\n".join) for name in NAMES})


@given(FILES)
@settings(deadline=None)
def test_whatever_the_files_say_they_come_to_a_prompt_or_to_places_that_say_why_not(files: dict[str, str]) -> None:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        prompts = folder / "prompts"
        (prompts / "sub").mkdir(parents=True)
        (folder / "secret.md").write_text("SECRET\n")
        (prompts / "link.md").symlink_to("../secret.md")
        for name, text in files.items():
            (prompts / name).write_text(text)
        library = Library(folder=folder, prompt_dir=prompts)
        source = library.read("a.md")
        assert isinstance(source, Text)
        composed = Composition(library).file(source)
        if isinstance(composed, Composed):
            for on in ({}, {"f": True}, {"f": True, "g": True}):
                told = composed.prompt.text(on)
                assert "SECRET" not in told
                code = "`" in told or "~" in told
                assert code or "@include" not in told
                assert composed.prompt.files(on).keys() <= {str(prompts / name) for name in NAMES}
            return
        assert composed
        for fault in composed:
            assert fault.path is not None
            line = fault.path.read_text().split("\n")[fault.line - 1]
            assert line.startswith("@include")
            assert fault.hint
