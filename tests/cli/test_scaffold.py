"""Factories from templates, and `tower init`, which writes one that runs as it stands."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tower.cli import exits, scaffold
from tower.config.load import load

from .conftest import Cli


def git(folder: Path, *args: str) -> str:
    return subprocess.run(["git", *args], cwd=folder, capture_output=True, text=True, check=True).stdout


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def loaded_well(config: Path) -> bool:
    found = load(config, environ={"PATH": os.environ["PATH"]})
    return found.factory is not None and found.problems == ()


@pytest.mark.parametrize("name", [None, "new", "deep/er"])
def test_init_writes_a_factory_that_is_good_as_it_stands(cli: Cli, nowhere: Path, name: str | None) -> None:
    result = cli("init", *([name] if name else []))
    folder = nowhere / (name or "")
    assert result.code == exits.DONE
    assert set(result.out.split()) == {str(folder / file) for file in scaffold.files("init")}
    assert "tower serve" in result.err
    assert loaded_well(folder / "layover.toml")


def test_the_workspace_is_a_repository_with_everything_committed(cli: Cli, nowhere: Path) -> None:
    cli("init")
    assert git(nowhere / "workspace", "status", "--porcelain") == ""
    assert git(nowhere / "workspace", "rev-list", "--count", "HEAD") == "1\n"
    assert "user" not in (nowhere / "workspace" / ".git" / "config").read_text()


def test_in_a_repository_of_ones_own_the_agents_work_there(cli: Cli, nowhere: Path) -> None:
    git(nowhere, "init", "-q")
    result = cli("init")
    assert not (nowhere / "workspace").exists()
    found = load(nowhere / "layover.toml", environ={})
    assert found.factory is not None
    assert found.factory.settings.work_dir == str(nowhere)
    assert "review what it changes" in result.err


def test_no_path_of_the_machine_is_written_down(cli: Cli, nowhere: Path) -> None:
    cli("init")
    assert all(str(nowhere).encode() not in text for name, text in snapshot(nowhere).items() if ".git/" not in name)


def test_a_repository_without_a_commit_can_be_reviewed(cli: Cli, nowhere: Path) -> None:
    git(nowhere, "init", "-q")
    cli("init")
    done = subprocess.run(
        [str(nowhere / "agents" / "reviewer.sh")], cwd=nowhere, input="", capture_output=True, text=True, check=True
    )
    assert "?? layover.toml\n" in done.stdout
    assert "Nothing has been committed here so far." in done.stdout


@pytest.mark.parametrize("name", [None, "sub"])
def test_inside_a_repository_no_other_one_is_made(cli: Cli, nowhere: Path, name: str | None) -> None:
    git(nowhere, "init", "-q")
    folder = nowhere / "deep" / "er"
    folder.mkdir(parents=True)
    os.chdir(folder)
    result = cli("init", *([name] if name else []))
    factory = folder / (name or "")
    assert f"this folder of the repository {nowhere}" in result.err
    assert not (factory / "workspace").exists()
    assert loaded_well(factory / "layover.toml")


def test_a_folder_too_deep_for_a_socket_is_said_with_what_to_set(cli: Cli, nowhere: Path) -> None:
    result = cli("init", "d" * 100)
    assert result.code == exits.DONE
    assert "the system takes at most 107; set [layover] socket = " in result.err
    found = load(nowhere / ("d" * 100) / "layover.toml", environ={"PATH": os.environ["PATH"]})
    assert [problem.key for problem in found.problems] == ["layover.socket"]


def test_a_workspace_that_is_there_is_left_as_it_is(cli: Cli, nowhere: Path) -> None:
    (nowhere / "workspace").mkdir()
    git(nowhere / "workspace", "init", "-q")
    (nowhere / "workspace" / "mine").write_text("mine")
    assert cli("init").code == exits.DONE
    assert sorted(path.name for path in (nowhere / "workspace").iterdir()) == [".git", "mine"]
    assert loaded_well(nowhere / "layover.toml")


def test_files_that_are_in_no_repository_are_not_committed_for_anybody(cli: Cli, nowhere: Path) -> None:
    (nowhere / "workspace").mkdir()
    (nowhere / "workspace" / "mine").write_text("mine")
    result = cli("init")
    assert result.code == exits.FAILED
    assert "is no git repository" in result.err
    assert snapshot(nowhere) == {"workspace/mine": b"mine"}


@pytest.mark.parametrize("name", ["layover.toml", "prompts/writer.md", "agents/writer.sh"])
def test_nothing_is_overwritten_and_nothing_half_written(cli: Cli, nowhere: Path, name: str) -> None:
    (nowhere / name).parent.mkdir(exist_ok=True)
    (nowhere / name).write_text("mine")
    result = cli("init")
    assert result.code == exits.FAILED
    assert name in result.err
    assert snapshot(nowhere) == {name: b"mine"}


def test_a_dangling_link_is_in_the_way_too(cli: Cli, nowhere: Path) -> None:
    (nowhere / "layover.toml").symlink_to("/nowhere/at/all")
    assert cli("init").code == exits.FAILED


def test_a_folder_that_cannot_be_made_is_said(cli: Cli, nowhere: Path) -> None:
    (nowhere / "file").touch()
    result = cli("init", "file/x")
    assert result.code == exits.FAILED
    assert "cannot write into" in result.err


def test_without_git_nothing_is_written(cli: Cli, nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    result = cli("init")
    assert result.code == exits.FAILED
    assert "git" in result.err
    assert list(nowhere.iterdir()) == []


@pytest.mark.parametrize("name", ['quo"te', "back\\slash", "spa ce", "ünï", "del\x7f", "$HOME `x`", "@REVIEWER@"])
def test_a_folder_of_any_name_works(cli: Cli, nowhere: Path, name: str) -> None:
    assert cli("init", name).code == exits.DONE
    assert loaded_well(nowhere / name / "layover.toml")


@pytest.mark.parametrize("script", ["writer", "reviewer"])
def test_the_scripts_are_programs_that_need_no_tower(cli: Cli, nowhere: Path, script: str) -> None:
    cli("init")
    environ = {"PATH": "/usr/bin:/bin"}
    program = [str(nowhere / "agents" / f"{script}.sh")]
    done = subprocess.run(
        program,
        cwd=nowhere / "workspace",
        input="You are x.\n\n## Tower: the flight (message) to act on\n\nBuy milk\n\n  and bread\n",
        capture_output=True,
        text=True,
        env=environ,
        check=True,
    )
    if script == "writer":
        assert done.stdout == "NOTES.md has a new line: Buy milk\n\n  and bread\n"
        assert (nowhere / "workspace" / "NOTES.md").read_text().endswith("- Buy milk\n  \n    and bread\n")
    else:
        assert done.stdout.startswith("Changed and not committed:")


def test_what_is_written_shows_an_include_and_a_pipeline(cli: Cli, nowhere: Path) -> None:
    cli("init")
    rules = (nowhere / "prompts" / "rules.md").read_text()
    for agent in ("writer", "reviewer"):
        told = cli("prompt", agent, "x").out
        assert f"\n\n{rules}\n## Tower: " in told
        assert "@include" not in told
    assert "since the last commit.\n" in cli("prompt", "reviewer", "-p", "review").out
