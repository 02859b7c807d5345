"""What the golden cases of the checks cannot show: long values, several problems together, what is not said.

In the files, `»` stands right before that place. Nothing else may be wrong with them.
"""
# ruff: noqa: E501  (a case reads best on one line)

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

from tower.config import writers
from tower.config.known import NOT_YET, refuse_key
from tower.config.load import load
from tower.config.tables import SECTIONS, TOP, accepted_keys

from .conftest import GOOD, Loads

AGENT = GOOD
OTHER = '[agents.other]\ndescription = "d"\nrunner = "none"\nprompt = "x"\n'


@dataclasses.dataclass(frozen=True)
class Case:
    text: str
    key: str
    sentence: str
    hint: str


ERRORS = {
    "huge": Case(AGENT + "»max_pending = 1" + "0" * 400 + "\n", "agents.solo.max_pending", "must be at most", "from 1"),
    "huge duration": Case(AGENT + "»timeout_sec = 1" + "0" * 400 + "\n", "agents.solo.timeout_sec", "duration", "seconds"),
    "long list": Case(AGENT + f"»args = {['a'] * 1001}\n", "agents.solo.args", "too many elements", "shorten"),
    "long text": Case(AGENT + f"»model = '{'m' * 5000}'\n", "agents.solo.model", "is too long", "file"),
    "long agent name": Case(
        AGENT + f"[agents.»{'a' * 65}]\nrunner = 'none'\nprompt = 'x'\n", f"agents.{'a' * 65}", "not a name", "at most 64"
    ),
    "very long name": Case(
        AGENT.replace('prompt = "x"', f"»prompt_file = '{'n' * 300}'"), "agents.solo.prompt_file", "not found", "make"
    ),
    "socket path": Case(
        f"[layover]\n»socket = '/run/{'s' * 110}'\n" + AGENT, "layover.socket", "a socket path of 115 bytes", "below /run"
    ),
    "state path": Case(
        f"[layover]\n»state_dir = '/run/{'s' * 100}'\n" + AGENT, "layover.state_dir", "a socket path of 116 bytes", "socket"
    ),
}  # fmt: skip
"""Too long to be read in a file; every other check has a golden case."""


def place_of(marked: str) -> tuple[int, int]:
    before = marked.partition("»")[0]
    return (before.count("\n") + 1, len(before) - before.rfind("\n")) if "»" in marked else (1, 1)


@pytest.mark.parametrize("case", ERRORS.values(), ids=ERRORS)
def test_an_error_is_found_alone_and_at_its_place(case: Case, loads: Loads, tmp_path: Path) -> None:
    loaded = loads(case.text.replace("»", ""), {"HOME": "/h"})
    (problem,) = [it for it in loaded.problems if it.severity == "error"]
    assert loaded.factory is None
    assert (problem.line, problem.column, problem.key) == (*place_of(case.text), case.key)
    assert case.sentence in problem.sentence
    assert case.hint in problem.hint
    assert problem.file == str(tmp_path / "layover.toml")


def test_nothing_is_wrong_with_the_smallest_factory(loads: Loads) -> None:
    loaded = loads(GOOD)
    assert loaded.problems == ()
    assert loaded.factory is not None


def test_all_problems_are_listed_together_in_the_order_of_the_file(loads: Loads) -> None:
    loaded = loads(
        "[defaults]\nmax_hops = 0\n[agents.b]\nprompt_file = 'no.md'\nacess = 1\ntimeout_sec = 0\n[agents.a]\nprompt = 'x'\n"
        "[[routes]]\nfrom = 'c'\nto = 'a'\n[layover]\nsocket = 1\n"
    )
    assert [(it.line, it.key) for it in loaded.problems if it.severity == "error"] == [
        (2, "defaults.max_hops"),
        (3, "agents"),
        (3, "agents.b"),
        (4, "agents.b.prompt_file"),
        (5, "agents.b.acess"),
        (6, "agents.b.timeout_sec"),
        (7, "agents.a"),
        (10, "routes[0].from"),
        (13, "layover.socket"),
    ]


@pytest.mark.parametrize(
    ("more", "line", "key"),
    [
        ("access = 'read-only'\n", 6, "agents.solo.access"),
        ("[pipelines.p]\nentry = 'solo'\nworkspace = 'per-itinerary'\n", 8, "pipelines.p.workspace"),
    ],
)
def test_what_git_makes_needs_git_where_the_tower_looks_for_it(
    loads: Loads, tmp_path: Path, more: str, line: int, key: str
) -> None:
    (tmp_path / "workspace" / ".git").mkdir()
    (tmp_path / "bin").mkdir()
    (problem,) = loads(AGENT + more, {"PATH": str(tmp_path / "bin")}).problems
    assert (problem.line, problem.key, problem.severity) == (line, key, "error")
    assert "there is none on the PATH" in problem.sentence
    assert load(tmp_path / "layover.toml", environ={"PATH": os.environ["PATH"]}).problems == ()


def test_no_suggestion_is_a_key_that_is_not_available_yet_or_what_was_written() -> None:
    for section, later in NOT_YET.items():
        for key in later:
            for written in (key[:-1], key + "s", key.upper()):
                accepted = {"": TOP, **{table: accepted_keys(table) for table in SECTIONS}}
                _, hint = refuse_key(section, written, accepted)
                suggested = hint.removeprefix("did you mean ").removesuffix("?")
                assert suggested == hint or suggested in accepted[section]
                assert suggested != written


def test_what_is_mistyped_is_not_said_to_be_missing(loads: Loads) -> None:
    loaded = loads(
        "[defaults]\nrunner = 1\n[agents.a]\nprompt = 1\nentry = 'yes'\n[agents.b]\nprompt_file = 1\nrunner = 2\n"
    )
    assert [it.key for it in loaded.problems] == [
        "defaults.runner", "agents.a.prompt", "agents.a.entry", "agents.b.prompt_file", "agents.b.runner",
    ]  # fmt: skip


def test_a_runner_that_was_mistyped_is_not_unknown_to_those_who_use_it(loads: Loads) -> None:
    loaded = loads("[runners.mine]\ncommand = 'x'\n" + AGENT.replace("none", "mine"))
    assert [it.key for it in loaded.problems] == ["runners.mine.command"]


def test_a_disabled_agent_may_be_out_of_reach(loads: Loads) -> None:
    assert loads(AGENT + OTHER + "enabled = false\n").problems == ()


def test_a_mistyped_place_does_not_make_other_places_wrong(loads: Loads) -> None:
    loaded = loads("[layover]\nwork_dir = 1\n" + AGENT + "work_dir = '/usr'\n" + OTHER)
    assert [it.key for it in loaded.problems] == ["layover.work_dir"]


def test_a_text_outside_the_folder_is_named_by_its_whole_path(loads: Loads, tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "p.md").write_text("@include x.md\n")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "workspace").mkdir()
    file = tmp_path / "sub" / "layover.toml"
    file.write_text("[layover]\nprompt_dir = '../shared'\n" + GOOD.replace('prompt = "x"', "prompt_file = 'p.md'"))
    (problem,) = load(file, environ={}).problems
    assert problem.file == str(tmp_path / "shared" / "p.md")


def test_a_message_reads_as_one_line(loads: Loads, tmp_path: Path) -> None:
    loaded = loads(
        "[agents.tester]\nrunner = 'none'\nprompt = 'x'\nentry = true\ndescription = 'd'\n  timeout_sec = 0\n"
    )
    (problem,) = loaded.problems
    assert str(problem) == (
        f"{tmp_path}/layover.toml:6:3: agents.tester.timeout_sec: must be greater than 0;"
        ' write seconds (900), or text such as "30s", "15m", "2h", "3d"'
    )


def test_files_are_named_as_the_person_named_the_configuration(
    loads: Loads, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads(GOOD.replace('prompt = "x"', 'prompt_file = "p.md"'), p="fine\n\n@include a b\n")
    monkeypatch.chdir(tmp_path)
    (problem,) = load(Path(), environ={}).problems
    assert (
        str(problem) == "p.md:3:1: agents.solo.prompt_file: @include is followed by more than one path;"
        ' put a path with blanks into quotes: @include "a file.md"; in a block of code the line is text'
    )
    monkeypatch.chdir("/")
    (problem,) = load(tmp_path / "workspace" / "..", environ={}).problems
    assert problem.file == f"{tmp_path}/workspace/../p.md"


def test_a_pipeline_is_read_with_everything_that_it_says(loads: Loads) -> None:
    loaded = loads(
        GOOD
        + """\
args = ["-a"]
model = "small"
effort = "low"
[pipelines.build]
description = "b"
entry = "solo"
trigger = "manual"
priority = 7
body = "go"
flags = { deep = { default = true, description = "d" }, plain = {} }
[pipelines.build.agents.solo]
model = ""
args = ["-b"]
[pipelines.other]
entry = "solo"
"""
    )
    assert loaded.factory is not None
    build = loaded.factory.pipelines["build"]
    assert (build.entry, build.description, build.priority, build.body) == ("solo", "b", 7, "go")
    assert build.settled({"plain": True}) == {"deep": True, "plain": True}
    assert build.flags["deep"].description == "d"
    chosen = loaded.factory.agent_in("solo", "build")
    assert (chosen.model, chosen.effort, chosen.args) == (None, "low", ("-a", "-b"))
    assert (chosen.origins["model"], chosen.origins["effort"]) == ("pipeline build", "agent")
    plain = loaded.factory.agents["solo"]
    assert loaded.factory.agent_in("solo", "other") is loaded.factory.agent_in("solo", None) is plain


def test_one_folder_under_two_paths_is_one_tree(loads: Loads, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a bind mount makes it, which a test cannot."""
    (tmp_path / "workspace" / "a").mkdir()
    (tmp_path / "workspace" / "b").mkdir()
    monkeypatch.setattr(writers, "_identity", lambda _: (1, 1))
    (problem,) = loads(
        GOOD + "work_dir = 'workspace/a'\n" + OTHER + "entry = true\nwork_dir = 'workspace/b'\n"
    ).problems
    assert problem.key == "agents.other.work_dir"
    assert problem.sentence.startswith(f"is the same folder as {tmp_path}/workspace/a, where solo works")
