"""Work trees of chains: a linked work tree of the live repository, and of each submodule, on a branch of its own.

Made as `git worktree add` makes one, by hand: that command reads the repository's configuration and runs what an agent
may have written there. Files come out as git keeps them, without filters; those of LFS where they are on this machine.
Who gets one is the engine's, its end `worktree_removal`'s.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tower.core.errors import ConflictError, InvalidError, TowerError
from tower.system.files import sync_folder
from tower.system.git import PATIENT, shown
from tower.system.gitdir import AS_IT_STANDS, GitDir, looking_at
from tower.system.lfs import fill_in
from tower.system.listing import GITLINK, Listing, list_index
from tower.system.repository import (
    Repository,
    find_repository,
    object_format,
    read_head,
    repository_at,
    resolve_ref,
)

BRANCHES: Final = "refs/heads/"

_ATTRIBUTES: Final = ("filter", "ident", "working-tree-encoding", "eol")
"""Those by which files on disk differ from what git keeps."""

_NOT_SET: Final = frozenset({b"unspecified", b"unset"})
_NAMED: Final = 5
"""File names that a note lists before it counts the rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Worktree:
    """A work tree that is there."""

    path: str
    branch: str
    base: str
    """The commit that it began with."""
    notes: tuple[str, ...] = ()


def make_worktree(live: str, path: str, branch: str) -> Worktree:
    """The work tree at `path` on `branch`, made from HEAD of the repository around `live` where it is missing.

    Doing it again after a crash goes on where it stopped. Raises `InvalidError` when there is no repository or no
    commit, `ConflictError` when the branch is somebody else's, and `TowerError` for what git or the disk says.
    """
    repository = find_repository(live)
    if repository.common_dir is None:
        raise InvalidError("repository", f"cannot make a work tree of {shown(live)}: its repository cannot be read")
    place = Path(path)
    try:
        if place.exists():
            return Worktree(path=path, branch=branch, base=resolve_ref(repository, f"{BRANCHES}{branch}") or "")
        head = read_head(repository).commit
        if head is None:
            raise InvalidError(
                "no-commit",
                f"cannot make a work tree of {shown(repository.top)}: it has no commit yet",
                'commit something there, or let the pipeline have workspace = "shared"',
            )
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".new-", dir=place.parent) as scratch:
            making = _Making(Path(scratch), place, branch)
            base = making.whole(repository, head)
            making.tree.rename(place)
        sync_folder(place.parent)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise TowerError("worktree", f"cannot make a work tree in {shown(path)}: {why}") from error
    return Worktree(path=path, branch=branch, base=base, notes=tuple(making.notes))


def admin_of(common_dir: str, place: Path) -> Path:
    """Where a repository keeps what it knows of the work tree at `place`."""
    return Path(common_dir, "worktrees", place.name)


def look_at(repository: Repository, scratch: Path) -> GitDir:
    """A new git directory in `scratch` that sees a repository and writes nothing there. Raises `OSError`."""
    head = read_head(repository)
    objects = scratch / "objects"
    for folder in ("info", "pack"):
        (objects / folder).mkdir(parents=True)
    form = object_format(repository, head)
    detached = replace(head, branch=None)
    return looking_at(repository, str(scratch / "look"), head=detached, object_format=form, objects=str(objects))


class _Making:
    """One work tree on its way: laid out beside its place, and renamed there when git knows of it."""

    def __init__(self, scratch: Path, place: Path, branch: str) -> None:
        self.tree = scratch / "tree"
        self.notes: list[str] = []
        self._scratch = scratch
        self._place = place
        self._branch = branch
        self._count = 0

    def whole(self, repository: Repository, head: str) -> str:
        """Lay out the outermost repository, and in it the submodules that the live tree has; the commit of the branch.

        Raises what `make_worktree` does.
        """
        base, waiting = self._one(b"", repository, head)
        while waiting:  # no recursion: an agent may have nested a thousand
            name, commit = waiting.pop()
            try:
                waiting += self._one(name, self._submodule(repository, name), commit)[1]
            except TowerError as error:
                if error.code not in ("git-failed", "repository", "branch-taken"):
                    raise
                self.notes.append(f"{shown(name)}, a submodule, is empty in this work tree: {error.sentence}")
        return base

    def _submodule(self, outer: Repository, name: bytes) -> Repository:
        """The live one. Raises `InvalidError` when it is not checked out, or its git data are not the outer one's."""
        live = Path(outer.top, os.fsdecode(name))
        found = repository_at(live) if os.path.realpath(live) == str(live) else None
        if found is None or found.common_dir is None:
            raise InvalidError("repository", f"cannot take it from {shown(str(live))}: it is not checked out there")
        # Branches are made there: whoever can write the live tree must not choose where.
        if not Path(found.common_dir).is_relative_to(os.path.realpath(outer.common_dir or outer.top)):
            raise InvalidError(
                "repository",
                f"cannot take it from {shown(str(live))}: its git data lie outside those of {shown(outer.top)};"
                " `git submodule absorbgitdirs` moves them",
            )
        return found

    def _one(self, name: bytes, repository: Repository, commit: str) -> tuple[str, list[tuple[bytes, str]]]:
        """Lay out one repository; the commit that its branch has, and its submodules with theirs."""
        assert repository.common_dir is not None  # noqa: S101 (looked at before)
        self._count += 1
        below = os.fsdecode(name)
        tree, place = self.tree / below, self._place / below
        own = replace(look_at(repository, self._scratch / str(self._count)), work_tree=str(tree))
        base = resolve_ref(repository, f"{BRANCHES}{self._branch}") or commit
        tree.mkdir(parents=True, exist_ok=True)
        own.read("read-tree", base)
        self._begin_branch(repository, commit)
        listing = list_index(own)
        self._lay_out(own, listing, repository, name)
        admin = admin_of(repository.common_dir, self._place)
        admin.mkdir(parents=True, exist_ok=True)
        head = f"ref: {BRANCHES}{self._branch}"
        for file, text in (("HEAD", head), ("commondir", "../.."), ("gitdir", f"{place}/.git")):
            _write(admin / file, f"{text}\n")
        with contextlib.suppress(FileNotFoundError):
            shutil.copy2(own.index, admin / "index")
        _write(tree / ".git", f"gitdir: {admin}\n")
        prefix = name + b"/" if name else b""
        links = [(inner, entries[0]) for inner, entries in listing.items() if entries[0].mode == GITLINK]
        return base, [(prefix + inner, link.object_id.decode()) for inner, link in links]

    def _begin_branch(self, repository: Repository, commit: str) -> None:
        """Make the branch where a crash has not left it already."""
        ref = f"{BRANCHES}{self._branch}"
        there = resolve_ref(repository, ref)
        if there is None:
            _write(Path(repository.common_dir or "", ref), f"{commit}\n")
        elif there != commit and not admin_of(repository.common_dir or "", self._place).exists():
            raise ConflictError("branch-taken", f"cannot make a work tree: the branch {self._branch} is there already")

    def _lay_out(self, own: GitDir, listing: Listing, repository: Repository, name: bytes) -> None:
        """Write the files, and note which of them are not what a check-out by git would have."""
        filters = _attributes_of(own, listing)
        own.set_info("attributes", AS_IT_STANDS)
        own.read("checkout-index", "--all", "--index", timeout=PATIENT)
        large = sorted(one for one, values in filters.items() if values == {b"lfs"})
        missing = fill_in(own, large, repository)
        prefix = name + b"/" if name else b""
        self._note("files of git LFS that are not on this machine are pointers here", prefix, missing)
        others = sorted(filters.keys() - set(large))
        self._note("files that a filter or a rule stands before are as git keeps them here", prefix, others)

    def _note(self, what: str, prefix: bytes, names: Iterable[bytes]) -> None:
        told = [shown(prefix + name) for name in names]
        if told:
            more = f" and {len(told) - _NAMED} more" if len(told) > _NAMED else ""
            self.notes.append(f"{what}: {', '.join(told[:_NAMED])}{more}")


def _attributes_of(own: GitDir, listing: Listing) -> dict[bytes, set[bytes]]:
    """The files whose attributes ask for a conversion, with the values; by the rules of the commit that is laid out."""
    if not own.has_info("attributes") and not any(name.endswith(b".gitattributes") for name in listing):
        return {}
    names = b"".join(name + b"\0" for name, entries in listing.items() if entries[0].mode != GITLINK)
    told = own.read("check-attr", "--cached", "-z", "--stdin", *_ATTRIBUTES, input=names).split(b"\0")
    found: dict[bytes, set[bytes]] = {}
    for name, value in zip(told[::3], told[2::3], strict=False):
        if value not in _NOT_SET:
            found.setdefault(name, set()).add(value)
    return found


def _write(path: Path, text: str) -> None:
    """One file of git's, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".lock", delete=False) as file:
        file.write(os.fsencode(text))
        file.flush()
        os.fsync(file.fileno())
    Path(file.name).chmod(0o644)
    Path(file.name).rename(path)
