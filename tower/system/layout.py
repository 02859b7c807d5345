"""Lays out one captured repository as a folder of files with a git repository of its own, and those nested in it.

The new repository borrows the objects of the live one, has copies of its refs, and stands as the live one stood:
staged, unstaged, in conflict, untracked. The folder around it is `snapshot`'s.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tower.core.errors import BusyError, InvalidError, TowerError
from tower.system.capture import Capture, capture
from tower.system.git import PATIENT, shown
from tower.system.gitdir import GitDir, copy_info, copy_sparse_patterns, looking_at, make_git_dir
from tower.system.listing import GITLINK, alike, is_sparse, list_index
from tower.system.repository import (
    Head,
    Repository,
    check_index,
    object_format,
    read_head,
    read_refs,
    repository_at,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaidOut:
    """What a folder was filled with."""

    head: Head
    tree: str
    """Git tree id of the content, without that of nested repositories."""


@dataclass(frozen=True, slots=True)
class _Nested:
    """A repository inside the one that is laid out: its name from the top, and the commit when HEAD names one."""

    name: bytes
    commit: str | None = None


class Layout:
    """A folder in which one repository is being laid out, with all that are nested in it."""

    def __init__(self, place: Path, *, include: Sequence[str] = (), exclude: Sequence[str] = ()) -> None:
        """`place` exists and is private; for `include` and `exclude` see `capture`."""
        self.notes: list[str] = []
        self._looks = place / "look"
        self._objects = place / "objects"
        self._include = include
        self._exclude = exclude
        self._count = 0
        self._looks.mkdir()
        self._objects.mkdir()

    def fill(self, repository: Repository, tree: Path, *, head_only: bool = False) -> LaidOut:
        """Fill the new folder `tree` with what the work tree holds, or its HEAD, nested repositories included.

        Raises what `capture` raises, and `OSError`.
        """
        laid_out, inside = self._head(repository, tree) if head_only else self._work(repository, tree)
        while inside:  # no recursion: an agent may have nested a thousand
            nested = inside.pop()
            live = Path(repository.top, os.fsdecode(nested.name))
            lay_out = self._nested if nested.commit is None else self._submodule
            inside += lay_out(live, _folder_in(tree, nested.name), nested)
        return laid_out

    def done(self) -> None:
        """Remove what was needed only for making it. Raises `OSError`."""
        shutil.rmtree(self._looks)

    def _work(self, repository: Repository, tree: Path, name: bytes = b"") -> tuple[LaidOut, list[_Nested]]:
        """Lay out what one work tree holds; returns with it the repositories in it."""
        own = self._look_at(repository, read_head(repository))
        found = capture(repository, own, include=self._include, exclude=self._exclude)
        if found.head.commit is not None:
            _tree_of(repository, own, found.head.commit)
        own = _check_out(own, tree)
        _stage(own, found)
        view = _make_repository(repository, own, tree, found.head, sparse=is_sparse(found.listing))
        _hide_conversions(view, found.clean)
        self.notes += (f"{shown(name)}: {note}" if name else note for note in found.notes)
        return LaidOut(head=found.head, tree=found.tree), [_Nested(_joined(name, inner)) for inner in found.inner]

    def _head(
        self, repository: Repository, tree: Path, name: bytes = b"", commit: str | None = None
    ) -> tuple[LaidOut, list[_Nested]]:
        """Lay out HEAD (or `commit`) as a fresh check-out would be, filters apart; returns with it the submodules."""
        head = read_head(repository) if commit is None else Head(commit=commit)
        own = self._look_at(repository, head)
        if head.commit is not None:
            named = _tree_of(repository, own, head.commit)
            own.read("read-tree", named)
        else:
            named = own.write("write-tree").strip().decode()
        links = {inner: entries[0] for inner, entries in list_index(own).items() if entries[0].mode == GITLINK}
        own = _check_out(own, tree)
        _make_repository(repository, own, tree, head, sparse=False)
        inside = [_Nested(_joined(name, inner), link.object_id.decode()) for inner, link in links.items()]
        return LaidOut(head=head, tree=named), inside

    def _nested(self, live: Path, place: Path, nested: _Nested) -> list[_Nested]:
        """Lay out a repository inside another; its files alone, when it cannot be read."""
        try:
            found = repository_at(live)
            if found is not None:
                check_index(found, read_head(found))
                return self._work(found, place, nested.name)[1]
            why = "it is incomplete"
        except TowerError as error:
            if error.code not in ("git-failed", "repository"):
                raise
            why = str(error)
        self.notes.append(f"{shown(nested.name)} has its files here, but not its history: {why}")
        return self._work(Repository(top=str(live), git_dir=None, common_dir=None), place, nested.name)[1]

    def _submodule(self, live: Path, place: Path, nested: _Nested) -> list[_Nested]:
        """Lay out the commit of a submodule that HEAD names, when the live tree has it."""
        try:
            found = repository_at(live)
            if found is not None:
                return self._head(found, place, nested.name, nested.commit)[1]
            why = "it is not checked out"
        except InvalidError as error:
            why = str(error)
        self.notes.append(f"{shown(nested.name)}, a submodule, is empty here: {why}")
        return []

    def _look_at(self, repository: Repository, head: Head) -> GitDir:
        self._count += 1
        objects = self._objects / str(self._count)
        for folder in ("info", "pack"):
            (objects / folder).mkdir(parents=True)
        path = str(self._looks / str(self._count))
        form = object_format(repository, head)
        return looking_at(repository, path, head=head, object_format=form, objects=str(objects))


def _tree_of(repository: Repository, own: GitDir, commit: str) -> str:
    """The id of a commit's tree. Raises `InvalidError` when the commit is lost: nothing could be compared with it."""
    try:
        return own.read("rev-parse", "--verify", "--quiet", f"{commit}^{{tree}}").strip().decode()
    except TowerError as error:
        if error.code != "git-failed":
            raise
        raise InvalidError(
            "repository",
            f"cannot take a snapshot of {shown(repository.top)}: its commit {commit} cannot be read",
            "see what `git fsck` says there",
        ) from error


def _check_out(own: GitDir, tree: Path) -> GitDir:
    """Write the files of the own index into the new folder `tree`, and look at that folder from now on."""
    tree.mkdir(exist_ok=True)
    there = dataclasses.replace(own, work_tree=str(tree))
    there.read("checkout-index", "--all", "--index", timeout=PATIENT)
    return there


def _folder_in(tree: Path, name: bytes) -> Path:
    """Make the way to a folder of the new tree. Raises `BusyError` when a link is in the way: it would lead out."""
    place = tree
    for part in os.fsdecode(name).split("/"):
        place /= part
        with contextlib.suppress(FileExistsError):
            place.mkdir()
        if place.is_symlink():
            raise BusyError(
                "tree-moving",
                f"cannot take a snapshot: the repository {shown(name)} was replaced by a link meanwhile",
                "try again",
            )
    return place


def _stage(own: GitDir, found: Capture) -> None:
    """Turn the index of the files that were laid out into the live one, keeping what is known of files laid out."""
    laid_out = list_index(own)
    wanted = {name: entries for name, entries in found.listing.items() if name not in found.intended}
    changed = [name for name, entries in wanted.items() if not alike(entries, laid_out.get(name, ()))]
    # First everything that is in the way: `a` cannot be an entry beside `a/b`.
    lines = [b"0 %s\t%s" % (own.null_id, name) for name in (laid_out.keys() - wanted.keys()).union(changed)]
    for name in changed:
        lines += (b"%s %s %d\t%s" % (entry.mode, entry.object_id, entry.stage, name) for entry in wanted[name])
    if lines:
        own.read("update-index", "-z", "--index-info", input=_ended(lines))
    intended = [name for name in found.intended if name in laid_out]
    if intended:
        options = ("--intent-to-add", "--force", "--pathspec-from-file=-", "--pathspec-file-nul")
        own.write("add", *options, input=_ended(intended))


def _make_repository(repository: Repository, own: GitDir, tree: Path, head: Head, *, sparse: bool) -> GitDir:
    """Give the folder its own `.git`, with the index of `own`: what an agent's git works with."""
    path = str(tree / ".git")
    refs = dict(read_refs(repository))
    if head.branch is not None:
        refs.pop(head.branch, None)
        if head.commit is not None:
            refs[head.branch] = head.commit
    # No collection of garbage in a repository that lives for one run.
    settings = {"gc.auto": "0"} | ({"core.sparseCheckout": "true"} if sparse else {})
    borrowed = (own.objects, *own.borrowed)
    make_git_dir(path, head=head, object_format=own.object_format, settings=settings, alternates=borrowed, refs=refs)
    copy_info(repository, path)
    if sparse:
        copy_sparse_patterns(repository, path)
    index = Path(own.index)
    if index.exists():
        index.rename(f"{path}/index")
    return GitDir(
        path=path,
        work_tree=str(tree),
        index=f"{path}/index",
        objects=f"{path}/objects",
        object_format=own.object_format,
    )


def _hide_conversions(view: GitDir, clean: frozenset[bytes]) -> None:
    """Let files that are unchanged in the live tree show as unchanged here, where no filter says so."""
    if not clean:
        return
    view.read("update-index", "-q", "--unmerged", "--refresh", timeout=PATIENT)
    differing = clean.intersection(view.read("diff-files", "-z", "--name-only").split(b"\0"))
    if differing:
        view.read("update-index", "--assume-unchanged", "-z", "--stdin", input=_ended(differing))


def _joined(outer: bytes, inner: bytes) -> bytes:
    return outer + b"/" + inner if outer else inner


def _ended(names: Iterable[bytes]) -> bytes:
    return b"".join(name + b"\0" for name in names)
