"""A user's git repository as it lies on disk, read without git and without its configuration.

An agent can write that configuration, and git does what it says (filters, fsmonitor, hooks, includes). So the places
of its parts, HEAD and the refs are read here, by hand; everything else is asked of git through a git directory of the
tower's own (`gitdir`).
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tower.core.errors import InvalidError, TowerError
from tower.system.git import shown

SHARED_REFS: Final = ("refs/heads", "refs/tags", "refs/remotes", "refs/notes")
"""What an agent needs for `git log`, `git blame` and comparing branches."""

_OWN_REFS: Final = ("refs/bisect/", "refs/worktree/", "refs/rewritten/")
"""Refs that each linked work tree has for itself."""

_SMALL: Final = 1 << 16
"""Bytes: HEAD, a loose ref, a .git file or commondir are a line each."""

_LARGE: Final = 1 << 28
"""Bytes of packed-refs: some three million refs."""

_SYMREF_DEPTH: Final = 5
"""As many symbolic refs in a row as git itself follows."""

_OBJECT_ID: Final = re.compile(rb"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_REF_NAME: Final = re.compile(r"refs/[^\x00-\x20\x7f~^:?*\[\\]+")
_REF_FAULT: Final = re.compile(r"\.\.|@\{|//|/\.|\.lock(?:/|$)|[/.]$")
_NOT_THERE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG})


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """Where the parts of a repository with a work tree are; all paths are absolute."""

    top: str
    """Real path of the work tree's top folder."""
    git_dir: str | None
    """HEAD and index of this work tree; None where a nested repository cannot be read, and only its files are used."""
    common_dir: str | None
    """Objects, refs and info; another folder than `git_dir` in a linked work tree."""

    @property
    def objects(self) -> tuple[str, ...]:
        """The object folders to borrow from; git itself follows what this one borrows."""
        return () if self.common_dir is None else (f"{self.common_dir}/objects",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """What HEAD names: a branch (full ref name; None when detached), a commit (None when there is none yet)."""

    branch: str | None = None
    commit: str | None = None


def find_repository(path: str) -> Repository:
    """The repository that `path` is the work tree of, or lies in; found as git finds it, whoever owns it.

    Raises `InvalidError` for what is no folder, lies in no repository, is bare, or keeps its refs in a form that
    cannot be read here.
    """
    real = _real(path)
    try:
        if not real.is_dir():
            raise _unfit(str(real), "it is not a folder", "create it, or name another in work_dir")
        for folder in (real, *real.parents):
            found = repository_at(folder)
            if found is not None:
                return found
            if _is_git_dir(folder):
                raise _unfit(
                    str(real),
                    "it is a bare repository or lies in a git directory",
                    "name a work tree: the folder that holds the files",
                )
    except OSError as error:
        raise _unreadable(real, error) from error
    raise _unfit(str(real), "it is not in a git repository", "run `git init` there, or name another folder in work_dir")


def repository_at(folder: Path) -> Repository | None:
    """The repository whose work tree is exactly `folder`, or None. Raises `InvalidError` when it cannot be read."""
    try:
        return _repository_at(folder)
    except OSError as error:
        raise _unreadable(folder, error) from error


def check_repository(path: str) -> str | None:
    """Why no snapshot could be taken of `path`, with what to do about it; None when nothing speaks against it."""
    try:
        repository = find_repository(path)
        check_index(repository, read_head(repository))
    except TowerError as error:
        return str(error)
    return None


def check_index(repository: Repository, head: Head) -> None:
    """Raise `InvalidError` for commits without an index: a bare repository behind a .git file, or nothing checked out.

    Whether it is bare stands in its configuration only; taken for a work tree, it would show every file as deleted.
    """
    if head.commit and repository.git_dir and not Path(repository.git_dir, "index").exists():
        raise _unfit(
            repository.top,
            "it has commits but no index, so nothing is checked out there",
            "name one of its work trees, or run `git reset` there",
        )


def read_head(repository: Repository) -> Head:
    """What HEAD names now. Raises `InvalidError` when HEAD is broken."""
    if repository.git_dir is None:
        return Head()
    # HEAD may be a symbolic link, as git once made it; then this reads the commit of its branch.
    text = _read(Path(repository.git_dir, "HEAD"), _SMALL) or b""
    branch = _symbolic(text)
    if branch is not None:
        return Head(branch=branch, commit=_resolve(repository, branch))
    if _OBJECT_ID.fullmatch(text.strip()):
        return Head(commit=text.strip().decode())
    raise _unfit(repository.top, "its HEAD names neither a branch nor a commit", "see `git status` there")


def resolve_ref(repository: Repository, name: str) -> str | None:
    """The object that a ref names now, by its full name; None when there is none."""
    return _resolve(repository, name)


def read_refs(repository: Repository) -> Mapping[str, str]:
    """Branches, tags, remote branches and notes: full name -> object id. What is broken is left out."""
    if repository.common_dir is None:
        return {}
    # Loose ones first: `git pack-refs` writes the packed file before it removes them, so none is missed.
    loose = {name: _resolve(repository, name) for name in _loose_names(Path(repository.common_dir))}
    packed = {
        name: commit for name, commit in _packed(repository.common_dir) if name.startswith(tuple(_slashed(SHARED_REFS)))
    }
    return packed | {name: commit for name, commit in loose.items() if commit is not None}


def object_format(repository: Repository, head: Head) -> str:
    """sha1 or sha256, told by the length of the ids and names that are found."""
    if head.commit is not None:
        return _format_of(head.commit)
    if repository.common_dir is None:
        return "sha1"
    for _, commit in _packed(repository.common_dir):
        return _format_of(commit)
    for name in _loose_names(Path(repository.common_dir)):
        found = _resolve(repository, name)
        if found is not None:
            return _format_of(found)
    # No commit yet, but files may have been added: a loose object is named by its id less the two digits of its folder.
    lengths = {len(entry.name) for entry in Path(repository.common_dir, "objects").glob("??/*")}
    return "sha256" if 62 in lengths else "sha1"


def is_ref_name(name: str) -> bool:
    """Whether git would take `name` for the full name of a ref; one that is no such name may lead anywhere on disk."""
    return bool(_REF_NAME.fullmatch(name)) and not _REF_FAULT.search(name)


def read_file(path: Path, limit: int) -> tuple[bytes, os.stat_result] | None:
    """At most `limit` bytes of one of a repository's files, and what it was when read; None when there is none.

    A link is followed, for some ways of sharing a repository make them; a FIFO put in its place is never opened.
    Raises `InvalidError` when it may not be read.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return None
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            return (file.read(limit), found) if stat.S_ISREG(found.st_mode) else None
    except OSError as error:
        if error.errno in _NOT_THERE:
            return None
        raise _unreadable(path, error) from error


def _repository_at(folder: Path) -> Repository | None:
    dot_git = folder / ".git"
    if dot_git.is_dir():
        git_dir = _real(dot_git)
        if not _is_git_dir(git_dir):
            return None
    elif (text := _read(dot_git, _SMALL)) is not None:
        git_dir = _named_by(text, folder)
    else:
        return None
    common = _common_dir(git_dir)
    if (common / "reftable").is_dir():
        raise _unfit(
            str(folder),
            "it keeps its refs in reftable format, which the tower cannot read yet",
            "convert it with `git refs migrate --ref-format=files`",
        )
    return Repository(top=str(folder), git_dir=str(git_dir), common_dir=str(common))


def _slashed(names: tuple[str, ...]) -> Iterator[str]:
    return (f"{name}/" for name in names)


def _format_of(object_id: str) -> str:
    return "sha256" if len(object_id) == 64 else "sha1"


def _resolve(repository: Repository, name: str, depth: int = 0) -> str | None:
    """The object that a ref names, through symbolic ones; None when there is none."""
    if repository.git_dir is None or repository.common_dir is None or depth > _SYMREF_DEPTH or not is_ref_name(name):
        return None
    own = name.startswith(_OWN_REFS)
    text = _read(Path(repository.git_dir if own else repository.common_dir, name), _SMALL)
    if text is None:
        return next((commit for found, commit in _packed(repository.common_dir) if found == name), None)
    target = _symbolic(text)
    if target is not None:
        return _resolve(repository, target, depth + 1)
    first = text.split(maxsplit=1)[0] if text.strip() else b""
    return first.decode() if _OBJECT_ID.fullmatch(first) else None


def _symbolic(text: bytes) -> str | None:
    if not text.startswith(b"ref:"):
        return None
    name = os.fsdecode(text.removeprefix(b"ref:").strip())
    return name if is_ref_name(name) else None


def _packed(common_dir: str) -> Iterator[tuple[str, str]]:
    for line in (_read(Path(common_dir, "packed-refs"), _LARGE) or b"").splitlines():
        commit, _, name = line.partition(b" ")
        if _OBJECT_ID.fullmatch(commit) and is_ref_name(os.fsdecode(name)):
            yield os.fsdecode(name), commit.decode()


def _loose_names(common_dir: Path) -> Iterator[str]:
    for space in SHARED_REFS:
        for folder, _, files in os.walk(common_dir / space):
            for file in files:
                name = str(Path(folder, file).relative_to(common_dir))
                if is_ref_name(name):
                    yield name


def _named_by(text: bytes, folder: Path) -> Path:
    """The git directory that a .git file names."""
    named = os.fsdecode(text.removeprefix(b"gitdir:").strip(b" \r\n"))
    git_dir = _real(folder / named)
    if not text.startswith(b"gitdir:") or not _is_git_dir(git_dir):
        raise _unfit(
            str(folder),
            f"its .git file names {shown(named)}, which is no git directory",
            "mend the link with `git worktree repair` or `git submodule update`",
        )
    return git_dir


def _common_dir(git_dir: Path) -> Path:
    text = _read(git_dir / "commondir", _SMALL)
    return git_dir if text is None else _real(git_dir / os.fsdecode(text.rstrip(b"\r\n")))


def _is_git_dir(path: Path) -> bool:
    """As git decides it: a HEAD, objects and refs."""
    if not os.path.lexists(path / "HEAD"):
        return False
    common = _common_dir(path)
    return (common / "objects").is_dir() and (common / "refs").is_dir()


def _read(path: Path, limit: int) -> bytes | None:
    found = read_file(path, limit)
    return None if found is None else found[0]


def _real(path: str | Path) -> Path:
    # Not Path.resolve(): it raises on a ring of symbolic links.
    return Path(os.path.realpath(path))


def _unreadable(path: Path, error: OSError) -> InvalidError:
    why = (error.strerror or str(error)).lower()
    return InvalidError("repository", f"cannot read {shown(str(path))}: {why}", "let the tower's user read it")


def _unfit(path: str, why: str, hint: str) -> InvalidError:
    return InvalidError("repository", f"cannot take a snapshot of {shown(path)}: {why}", hint)
