"""The one way to run git: nothing inherited, nothing configured, and failures in words."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from trees import User, write

from tower.core.errors import BusyError, TowerError
from tower.system import git as module
from tower.system.git import LEAST_VERSION, git, git_version, quoted, shown


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return User(tmp_path / "home").repository(tmp_path / "live")


def fake_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/git").write_text(f"#!/bin/sh\n{script}\n")
    (tmp_path / "bin/git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")


def test_the_environment_is_built_from_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_git(tmp_path, monkeypatch, "env")
    monkeypatch.setenv("GIT_DIR", "/decoy")
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_TRACE", "/tmp/trace")
    monkeypatch.setenv("SECRET", "marker")
    told = dict(line.split("=", 1) for line in git(["x"], git_dir="/own", cwd=str(tmp_path)).decode().splitlines())
    assert told.pop("PWD") == str(tmp_path)
    assert told.keys() - {"_", "SHLVL", "OLDPWD"} == {"PATH", "GIT_DIR", *module._ENVIRONMENT}
    assert told["GIT_DIR"] == "/own"
    assert not Path(told["HOME"]).exists()


def test_places_are_passed_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_git(tmp_path, monkeypatch, "env -0")
    odd = os.fsdecode(b'/a:b"c\n\xff')
    told = git(["x"], git_dir="/g", work_tree=str(tmp_path), index="/i", objects="/o", alternates=(odd, "/plain"))
    pairs = dict(line.split(b"=", 1) for line in told.split(b"\0")[:-1])
    assert pairs[b"GIT_WORK_TREE"] == os.fsencode(tmp_path)
    assert (pairs[b"GIT_INDEX_FILE"], pairs[b"GIT_OBJECT_DIRECTORY"]) == (b"/i", b"/o")
    assert pairs[b"GIT_ALTERNATE_OBJECT_DIRECTORIES"] == b'"/a:b\\"c\\n\xff":"/plain"'


def test_no_user_or_system_configuration_is_read(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    listed = git(["config", "--list", "--show-scope"], git_dir=str(tree / ".git"), work_tree=str(tree)).decode()
    scopes = {line.split()[0] for line in listed.splitlines()}
    assert scopes == {"local", "command"}
    assert "command\tprotocol.allow=never" in listed


def test_input_goes_in_and_output_comes_out(tree: Path) -> None:
    for content in (b"a\0b\n", None):  # without input it ends at once instead of waiting for a terminal
        told = git(["hash-object", "--stdin"], git_dir=str(tree / ".git"), input=content)
        blob = b"blob %d\0" % len(content or b"") + (content or b"")
        assert told.strip().decode() == hashlib.sha1(blob, usedforsecurity=False).hexdigest()


def test_no_hook_runs_and_no_protocol_works(tree: Path, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    hook = tree / ".git/hooks/pre-commit"
    hook.write_text(f"#!/bin/sh\ntouch '{marker}'\nexit 1\n")
    hook.chmod(0o755)
    identity = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    write(tree, {"a.txt": "changed\n"})
    git([*identity, "commit", "-qam", "second"], git_dir=str(tree / ".git"), work_tree=str(tree))
    assert not marker.exists()
    with pytest.raises(TowerError, match=r"cannot run git fetch in .*not allowed"):
        git(["fetch", f"file://{tree}"], git_dir=str(tree / ".git"))


def test_a_failure_says_which_command_where_and_git_s_last_line(tree: Path) -> None:
    with pytest.raises(TowerError) as caught:
        git(["-c", "a.b=c", "cat-file", "-p", "nothing here"], git_dir=str(tree / ".git"))
    assert caught.value.code == "git-failed"
    assert caught.value.sentence == (
        f"cannot run git cat-file in {tree}/.git: fatal: Not a valid object name nothing here"
    )


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        ("exit 7", "it ended with code 7"),
        ("kill -KILL $$", "it was ended by signal 9"),
        ("echo; echo first >&2; printf '\\n  \\n' >&2; exit 1", ": first"),
        ("printf 'bad \\033[2J\\n' >&2; exit 1", "bad \\x1b[2J"),
        ("head -c 10000 /dev/zero | tr '\\0' x >&2; exit 1", "x" * 300),
    ],
)
def test_however_it_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, sentence: str) -> None:
    fake_git(tmp_path, monkeypatch, script)
    with pytest.raises(TowerError) as caught:
        git(["x"], git_dir=str(tmp_path))
    assert caught.value.sentence.endswith(sentence)
    assert len(caught.value.sentence) < 500


def test_a_full_disk_is_no_failure_of_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_git(tmp_path, monkeypatch, "echo 'error: file write error: No space left on device' >&2; echo bye >&2; exit 1")
    with pytest.raises(BusyError) as caught:
        git(["x"], git_dir=str(tmp_path))
    assert caught.value.code == "disk-full"


def test_one_that_does_not_end_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_git(tmp_path, monkeypatch, f"echo $$ > '{tmp_path}/pid'; exec sleep 60")
    with pytest.raises(BusyError, match=r"longer than 0\.3 s") as caught:
        git(["x"], git_dir=str(tmp_path), timeout=0.3)
    assert caught.value.code == "git-timeout"
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_no_git_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TowerError, match="not on the tower's PATH") as caught:
        git_version()
    assert "2.39" in caught.value.hint


def test_a_folder_that_is_gone(tmp_path: Path) -> None:
    with pytest.raises(BusyError, match="that folder is gone"):
        git(["version"], git_dir=str(tmp_path), cwd=str(tmp_path / "gone"))


def test_the_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert git_version() >= LEAST_VERSION
    fake_git(tmp_path, monkeypatch, "echo git version 3.1.0-rc1.windows")
    assert git_version() == (3, 1)


def test_a_version_that_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_git(tmp_path, monkeypatch, "echo mine")
    with pytest.raises(TowerError, match="cannot tell the version"):
        git_version()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (b"plain.txt", "plain.txt"),
        ("ünï".encode(), "ünï"),
        (b"caf\xe9", "caf\\xe9"),
        (b"a\nb", "a\\nb"),
        ("right\u202eleft".encode(), "right\\u202eleft"),
        (b"\x1b[31m", "\\x1b[31m"),
        (os.fsdecode(b"caf\xe9"), "caf\\xe9"),
    ],
)
def test_names_are_shown_in_one_printable_line(name: bytes | str, text: str) -> None:
    assert shown(name) == text


def test_quoting() -> None:
    assert quoted('a\\b"c\nd') == '"a\\\\b\\"c\\nd"'
