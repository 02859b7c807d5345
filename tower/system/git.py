"""The one function through which the tower runs git.

Owns the environment, the settings and the words of failure. Nothing that an agent, a user or the system configured
reaches a git started here; which git directory it looks through is `gitdir`'s.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from typing import Final

from tower.core.errors import BusyError, TowerError

LEAST_VERSION: Final = (2, 39)
"""Oldest git that the tests have been run with."""

QUICK: Final = 120.0
"""Seconds for what only looks: some hundred times what a repository of 50,000 files takes."""

PATIENT: Final = 1800.0
"""Seconds for what reads or writes file contents: some 300 GB from an ordinary disk."""

LAST_WORDS: Final = 300
"""Characters of git's own message that an error repeats."""

NOWHERE: Final = "/nonexistent"

_ENVIRONMENT: Final = {
    "HOME": NOWHERE,
    "XDG_CONFIG_HOME": NOWHERE,
    "LC_ALL": "C",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    # File names come from disk: `*` in one of them is a letter.
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_ALLOW_PROTOCOL": "",
    "GIT_ASKPASS": "false",
    "GIT_SSH_COMMAND": "false",
    "GIT_EDITOR": "false",
    "GIT_PAGER": "cat",
}

_SETTINGS: Final = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.attributesFile=/dev/null",
    "core.excludesFile=/dev/null",
    # Both live in a copied index, and would be believed.
    "core.untrackedCache=false",
    "core.splitIndex=false",
    # What is made here is worthless after a power cut.
    "core.fsync=none",
    # Names that only other systems must fear are names like any other on Linux; git would leave them out in silence.
    "core.protectNTFS=false",
    "core.protectHFS=false",
    "core.quotePath=false",
    "protocol.allow=never",
    "submodule.recurse=false",
    "maintenance.auto=false",
    "gc.auto=0",
)

_UMASK: Final = 0o022
"""Of the files that git makes: a check-out looks alike whatever the tower was started with. Privacy is the enclosing
folder's, which nobody else may enter."""


def git(
    args: Sequence[str],
    *,
    git_dir: str,
    work_tree: str | None = None,
    index: str | None = None,
    objects: str | None = None,
    alternates: Sequence[str] = (),
    cwd: str | None = None,
    input: bytes | None = None,
    timeout: float | None = None,
    settings: Sequence[str] = (),
) -> bytes:
    """Run one git command and return its standard output. Paths may hold any bytes (surrogate escapes).

    `objects` is where objects are written, `alternates` are object folders that are only read; `cwd` is the work
    tree unless it is named; `timeout` is in seconds (`QUICK` unless given); `settings` (`NAME=VALUE`) come after those
    that hold for every command. Raises `BusyError` (git-timeout,
    disk-full, git-start) and `TowerError` (git-missing, git-failed) with git's own last line.
    """
    command = ["git"]
    for setting in (*_SETTINGS, *settings):
        command += ("-c", setting)
    command += args
    place = cwd or work_tree or git_dir
    verb = next((word for word in args if not word.startswith("-") and "=" not in word), args[0])
    seconds = QUICK if timeout is None else timeout
    environment = _environment(git_dir, work_tree, index, objects, alternates)
    try:
        done = subprocess.run(
            command,
            env=environment,
            cwd=place,
            input=input or b"",
            capture_output=True,
            timeout=seconds,
            umask=_UMASK,
            start_new_session=True,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise BusyError(
            "git-timeout",
            f"cannot finish git {verb} in {shown(place)}: it took longer than {seconds:g} s",
            "see whether that disk answers, and try again",
        ) from None
    except OSError as error:
        raise _not_started(verb, place, error) from error
    if done.returncode != 0:
        raise _failure(verb, place, done.returncode, done.stderr)
    return done.stdout


def git_version() -> tuple[int, int]:
    """Version of the git on PATH, as far as it matters here. Raises what `git` raises."""
    found = re.search(rb"(\d+)\.(\d+)", git(["version"], git_dir=os.devnull, cwd="/"))
    if found is None:
        raise TowerError("git-failed", "cannot tell the version of git", "see what `git version` prints")
    return int(found[1]), int(found[2])


def quoted(path: str) -> str:
    """A path as lists of object folders hold it, whatever letters are in it."""
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def shown(name: bytes | str) -> str:
    """A file name for people: one line, and printable whatever bytes an agent put into it."""
    text = os.fsencode(name).decode("utf-8", "backslashreplace")
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)


def _environment(
    git_dir: str, work_tree: str | None, index: str | None, objects: str | None, alternates: Sequence[str]
) -> dict[str, str]:
    """Built from nothing: of the tower's own environment only the search path goes on to git."""
    environment = {"PATH": os.environ.get("PATH", os.defpath), **_ENVIRONMENT, "GIT_DIR": git_dir}
    if work_tree is not None:
        environment["GIT_WORK_TREE"] = work_tree
    if index is not None:
        environment["GIT_INDEX_FILE"] = index
    if objects is not None:
        environment["GIT_OBJECT_DIRECTORY"] = objects
    if alternates:
        environment["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = os.pathsep.join(quoted(path) for path in alternates)
    return environment


def _not_started(verb: str, place: str, error: OSError) -> TowerError:
    if isinstance(error, FileNotFoundError | NotADirectoryError) and error.filename == place:
        return BusyError("git-start", f"cannot run git {verb} in {shown(place)}: that folder is gone")
    if isinstance(error, FileNotFoundError | PermissionError) and error.filename == "git":
        return TowerError(
            "git-missing",
            "cannot run git: it is not on the tower's PATH",
            f"install git {'.'.join(map(str, LEAST_VERSION))} or newer",
        )
    return BusyError("git-start", f"cannot run git {verb}: {(error.strerror or str(error)).lower()}", "try again later")


def _failure(verb: str, place: str, code: int, stderr: bytes) -> TowerError:
    lines = [line for line in stderr.splitlines() if line.strip()]
    last = shown(lines[-1])[:LAST_WORDS] if lines else ""
    ended = f"it was ended by signal {-code}" if code < 0 else f"it ended with code {code}"
    sentence = f"cannot run git {verb} in {shown(place)}: {last or ended}"
    if b"No space left on device" in stderr or b"Disk quota exceeded" in stderr:
        return BusyError("disk-full", sentence, "make room on that disk, then try again")
    return TowerError("git-failed", sentence)
