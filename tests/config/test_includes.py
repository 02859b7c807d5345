"""One configuration in several files: what is merged, what is refused and where, and what is watched."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tower.config.includes import MAX_FILES
from tower.config.load import Loaded, load

from .conftest import GOOD

OTHER = '[agents.other]\ndescription = "d"\nrunner = "none"\nprompt = "x"\nentry = true\n'
INCLUDES = '[layover]\ninclude = ["agents/*.toml"]\n'

Writes = Callable[..., Loaded]


@pytest.fixture
def writes(tmp_path: Path) -> Writes:
    """Writes files by their names, in a folder that has a `workspace`, and loads `layover.toml`."""
    (tmp_path / "workspace").mkdir()

    def writes(files: Mapping[str, str], environ: Mapping[str, str] | None = None) -> Loaded:
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text)
        return load(tmp_path / "layover.toml", environ=environ or {})

    return writes


def lines(loaded: Loaded, folder: Path) -> list[str]:
    return [str(problem).replace(f"{folder}/", "") for problem in loaded.problems]


def test_tables_of_several_files_make_one_factory(writes: Writes) -> None:
    route = '[[routes]]\nfrom = "{}"\nto = "{}"\n'
    loaded = writes(
        {
            "layover.toml": '[layover]\ninclude = ["more.toml", "agents/*.toml"]\n'
            + GOOD
            + route.format("solo", "other"),
            "agents/b.toml": "[defaults]\nmax_hops = 3\n" + route.format("other", "third"),
            "agents/a.toml": OTHER + OTHER.replace("other", "third"),
            "agents/.#a.toml": "half written by an edit",
            "more.toml": '[runners.mine]\ncommand = ["x"]\n' + route.format("third", "solo"),
        }
    )
    assert loaded.problems == ()
    factory = loaded.factory
    assert factory is not None
    assert list(factory.agents) == ["solo", "other", "third"]
    assert "mine" in factory.runners
    assert factory.settings.max_hops == 3
    assert [(route.sender, route.receiver) for route in factory.routes] == [
        ("solo", "other"), ("third", "solo"), ("other", "third"),
    ]  # fmt: skip


def test_a_problem_names_the_file_that_it_is_in(writes: Writes, tmp_path: Path) -> None:
    route = '[[routes]]\nfrom = "solo"\nto = "solo"\n'
    loaded = writes(
        {
            "layover.toml": INCLUDES + GOOD + "max_pending = 0\n" + route,
            "agents/a.toml": "\n" + OTHER + "  timeout_sec = 0\n",
            "agents/b.toml": "[runner.x]\n" + route + '[[routes]]\nfrom = "other"\nto = ["solo", "nobody"]\n',
            "agents/c.toml": "[defaults]\nmax_hop = 3\nmax_hops = 0\n",
        }
    )
    assert [line.split(": ")[:2] for line in lines(loaded, tmp_path)] == [
        ["layover.toml:8:1", "agents.solo.max_pending"],
        ["agents/a.toml:7:3", "agents.other.timeout_sec"],
        ["agents/b.toml:1:2", "runner"],
        ["agents/b.toml:7:15", "routes[2].to[1]"],
        ["agents/c.toml:2:1", "defaults.max_hop"],
        ["agents/c.toml:3:1", "defaults.max_hops"],
    ]


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (
            {"agents/a.toml": OTHER + GOOD},
            "agents/a.toml:6:9: agents.solo: is declared in layover.toml:3 as well; keep one of the two",
        ),
        (
            {"agents/a.toml": OTHER, "agents/b.toml": "\n" + OTHER},
            "agents/b.toml:2:9: agents.other: is declared in agents/a.toml:1 as well; keep one of the two",
        ),
        (
            {"agents/a.toml": "[defaults]\nmax_hops = 2\n", "agents/b.toml": "[defaults]\nmax_runs = 2\n"},
            "agents/b.toml:1:2: defaults: is declared in agents/a.toml:1 as well; keep one of the two",
        ),
        (
            {"agents/a.toml": "[layover]\ngrace_sec = 2\n" + OTHER},
            "agents/a.toml:1:2: layover: stands in an included file; it belongs into layover.toml; move it",
        ),
        ({"agents/a.toml": "[agents.x\n"}, "agents/a.toml:1:10: is not TOML: expected ']' at the end of a table"),
        ({"agents/a.toml": ""}, "agents/a.toml: declares nothing; `tower init` writes"),
        ({"agents/a.toml": "a = 'x\0'"}, "agents/a.toml:1:7: holds a NUL byte"),
        (
            {"agents/a.toml": "agents = 1\n"},
            "agents/a.toml:1:1: agents: is declared in layover.toml:3 as well; keep one of the two",
        ),
        ({}, 'layover.toml:2:12: layover.include[0]: matches no file in {folder}; make one'),
    ],
)  # fmt: skip
def test_what_an_included_file_gets_wrong(writes: Writes, tmp_path: Path, files: dict[str, str], expected: str) -> None:
    loaded = writes({"layover.toml": INCLUDES + GOOD, **files})
    (line,) = lines(loaded, tmp_path)
    assert line.startswith(expected.replace("{folder}", str(tmp_path)))
    assert (loaded.factory is None) == bool(files)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("more.toml", "names more.toml, which was not found; tried {folder}/more.toml; make the file"),
        ("*.toml", "includes layover.toml, which is this very file; write a pattern that leaves it out"),
        ("layover.toml", "includes layover.toml, which is this very file"),
        ("again.toml", "includes again.toml, which is this very file"),
        ("out.toml", "names out.toml, which leads outside {folder}; move the file"),
        ("workspace", "names workspace, which is not a file"),
        ("broken.toml", "names broken.toml, which does not exist"),
        ("../x.toml", "must stay inside this file's folder; write a pattern relative to it, without .."),
        ("/etc/x.toml", "must stay inside this file's folder"),
        ("~/x.toml", "must stay inside this file's folder"),
        ("a/**/b.toml", "looks into folders of any depth; write one *"),
        (" ", "must name files"),
    ],
)
def test_a_pattern_that_is_refused(writes: Writes, tmp_path: Path, pattern: str, expected: str) -> None:
    if pattern != "*.toml":
        (tmp_path / "again.toml").symlink_to("layover.toml")
        (tmp_path / "broken.toml").symlink_to("nowhere.toml")
        (tmp_path / "out.toml").symlink_to("/etc/passwd")
    loaded = writes({"layover.toml": f'[layover]\ninclude = ["{pattern}"]\n' + GOOD})
    (line,) = lines(loaded, tmp_path)
    assert line.startswith(
        f"layover.toml:2:12: layover.include[0]: {expected.replace('{folder}/more', 'more')}".replace(
            "{folder}", str(tmp_path)
        )
    )
    assert loaded.factory is None


def test_what_may_stand_in_a_file_that_could_not_be_read_is_not_said_to_be_missing(
    writes: Writes, tmp_path: Path
) -> None:
    loaded = writes(
        {
            "layover.toml": INCLUDES + GOOD.replace("true", "1") + '[[routes]]\nfrom = "solo"\nto = "other"\n',
            "agents/a.toml": OTHER + "]",
        }
    )
    assert [line.split(": ")[0] for line in lines(loaded, tmp_path)] == ["layover.toml:7:1", "agents/a.toml:6:1"]


def test_a_file_that_two_patterns_match_is_read_once(writes: Writes) -> None:
    loaded = writes({"layover.toml": '[layover]\ninclude = ["a.toml", "?.toml"]\n' + GOOD, "a.toml": OTHER})
    assert loaded.problems == ()


def test_a_variable_can_name_the_files(writes: Writes, tmp_path: Path) -> None:
    files = {"layover.toml": INCLUDES + GOOD, "agents/a.toml": "nonsense", "b.toml": OTHER}
    loaded = writes(files, {"TOWER_LAYOVER__INCLUDE": '["b.toml"]'})
    assert loaded.factory is not None
    assert "other" in loaded.factory.agents
    loaded = writes(files, {"TOWER_LAYOVER__INCLUDE": '["c.toml"]'})
    assert lines(loaded, tmp_path) == [
        "environment: TOWER_LAYOVER__INCLUDE: names c.toml, which was not found; tried c.toml; make the file"
    ]


def test_bounds(writes: Writes, tmp_path: Path) -> None:
    half = "#" * (600 << 10) + "\n"
    loaded = writes({"layover.toml": INCLUDES + GOOD, "agents/a.toml": half + OTHER, "agents/b.toml": half})
    assert "more than 1048576 bytes" in lines(loaded, tmp_path)[0]
    (tmp_path / "agents" / "b.toml").unlink()
    (tmp_path / "agents" / "a.toml").unlink()
    many = {f"agents/{number}.toml": "[runners.x]" for number in range(MAX_FILES + 1)}
    (line,) = lines(writes(many), tmp_path)
    assert f"names {MAX_FILES + 1} files" in line


def test_places_where_a_file_may_appear_or_change_are_watched(writes: Writes, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "l.toml").write_text(OTHER)
    (tmp_path / "x").mkdir()
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "l.toml").symlink_to("../real/l.toml")
    loaded = writes({"layover.toml": '[layover]\ninclude = ["agents/*.toml", "[xy]/*.toml"]\n' + GOOD})
    assert loaded.factory is not None
    assert {tmp_path, tmp_path / "agents", tmp_path / "real", tmp_path / "x"} <= loaded.watched
    assert tmp_path / "workspace" not in loaded.watched


def test_a_folder_of_included_files_that_is_gone_is_watched_for(writes: Writes, tmp_path: Path) -> None:
    loaded = writes({"layover.toml": '[layover]\ninclude = ["parts/agents/x.toml"]\n' + GOOD})
    assert loaded.factory is None
    assert tmp_path in loaded.watched
    (tmp_path / "parts").mkdir()
    assert tmp_path / "parts" in load(tmp_path / "layover.toml", environ={}).watched


def test_the_digest_follows_included_files(writes: Writes, tmp_path: Path) -> None:
    files = {"layover.toml": INCLUDES + GOOD, "agents/a.toml": OTHER}
    first, same = writes(files), writes(files)
    other = writes({"agents/a.toml": OTHER + "# a comment\n"})
    digests = [it.factory.digest if it.factory else "" for it in (first, same, other)]
    assert digests[0] == digests[1] != digests[2] != ""


def test_relative_paths_are_taken_from_the_first_file(writes: Writes, tmp_path: Path) -> None:
    loaded = writes(
        {
            "layover.toml": INCLUDES + GOOD,
            "agents/a.toml": OTHER.replace('prompt = "x"', 'prompt_file = "p.md"'),
            "p.md": "Go.",
        }
    )
    assert loaded.factory is not None
    assert loaded.factory.agents["other"].instructions.text({}) == "Go.\n"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_included_file_that_may_not_be_read(writes: Writes, tmp_path: Path) -> None:
    writes({"layover.toml": INCLUDES + GOOD, "agents/a.toml": OTHER})
    (tmp_path / "agents" / "a.toml").chmod(0)
    (line,) = lines(load(tmp_path / "layover.toml", environ={}), tmp_path)
    assert "cannot be read by this user" in line
