"""Lays out one captured repository as a folder of files with a git repository of its own, and those nested in it.

The new repository borrows the objects of the live one, has copies of its refs, and stands as the live one stood:
staged, unstaged, in conflict, untracked. The folder around it is `snapshot`'s.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

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

LAID: Final = "laid.index"
"""An index that knows the files as they were laid out: from it a single repository can be brought to another state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One repository as it was read, to be laid out as it was at that moment."""

    name: bytes
    """Its place from the top; empty for the outermost."""
    repository: Repository
    own: GitDir
    head: Head
    tree: str
    """Git tree id of the content, without that of nested repositories."""
    refs: Mapping[str, str]
    found: Capture | None
    """None for a commit, which is laid out as a fresh check-out has it."""

    def describe(self) -> Iterable[bytes]:
        """All that decides what is laid out, beside the format of the folder."""
        yield self.name
        known = (self.repository, self.head, self.tree, sorted(self.refs.items()))
        yield os.fsencode(repr(known))
        for name in ("exclude", "attributes", "sparse-checkout"):
            yield (self.own.read_info(name) or b"-") if name != "attributes" or self.found is None else b"-"
        if self.found is not None:
            yield self.found.staged.encode()
            yield b"\0".join(sorted(self.found.intended)) + b"\1" + b"\0".join(sorted(self.found.clean))


@dataclass(frozen=True, slots=True)
class _Nested:
    """A repository inside the one that is read: its name from the top, and the commit when HEAD names one."""

    name: bytes
    commit: str | None = None


class Layout:
    """A folder in which one repository is being laid out, with all that are nested in it.

    First everything is read, with its new objects; what was read can then be laid out, or found to be there already.
    """

    def __init__(
        self, place: Path, *, home: Path | None = None, include: Sequence[str] = (), exclude: Sequence[str] = ()
    ) -> None:
        """`place` exists and is private; `home` is where it will stand in the end, if that is another path. For
        `include` and `exclude` see `capture`."""
        self.notes: list[str] = []
        self.parts: list[Part] = []
        self._place = place
        self._home = home or place
        self._looks = place / "look"
        self._objects = place / "objects"
        self._include = include
        self._exclude = exclude
        self._looks.mkdir()
        self._objects.mkdir()

    def read(self, repository: Repository, *, head_only: bool = False) -> Part:
        """Read what the work tree holds, or its HEAD, nested repositories included; returns the outermost part.

        Raises what `capture` raises, and `OSError`.
        """
        inside = self._head(repository) if head_only else self._work(repository)
        while inside:  # no recursion: an agent may have nested a thousand
            nested = inside.pop()
            live = Path(repository.top, os.fsdecode(nested.name))
            inside += self._nested(live, nested) if nested.commit is None else self._submodule(live, nested)
        return self.parts[0]

    def stand_in(self, home: Path) -> None:
        """The folder will stand at `home` in the end."""
        self._home = home

    def lay_out(self, tree: Path, laid: Path | None = None) -> None:
        """Fill the new folder `tree` with what was read. Raises what `git` raises, and `OSError`.

        With `laid`, the `LAID` of a single repository whose files are in `tree` already, only what differs is written.
        """
        for part in self.parts:
            place = _folder_in(tree, part.name) if part.name else tree
            own = _check_out(part.own, place) if laid is None else _bring(part, place, laid)
            if len(self.parts) == 1 and Path(own.index).exists():
                shutil.copy2(own.index, self._place / LAID)
            sparse = False
            if part.found is not None:
                _stage(own, part.found)
                sparse = is_sparse(part.found.listing)
            view = self._make_repository(part, own, place, sparse=sparse)
            if part.found is not None:
                _hide_conversions(view, part.found.clean)

    def done(self) -> None:
        """Remove what was needed only for making it. Raises `OSError`."""
        shutil.rmtree(self._looks)

    def _work(self, repository: Repository, name: bytes = b"") -> list[_Nested]:
        """Read what one work tree holds; returns the repositories in it."""
        own = self._look_at(repository, read_head(repository))
        found = capture(repository, own, include=self._include, exclude=self._exclude)
        if found.head.commit is not None:
            _tree_of(repository, own, found.head.commit)
        self._add(name, repository, own, found.head, found.tree, found)
        self.notes += (f"{shown(name)}: {note}" if name else note for note in found.notes)
        return [_Nested(_joined(name, inner)) for inner in found.inner]

    def _head(self, repository: Repository, name: bytes = b"", commit: str | None = None) -> list[_Nested]:
        """Read HEAD (or `commit`) for a fresh check-out, filters apart; returns the submodules."""
        head = read_head(repository) if commit is None else Head(commit=commit)
        own = self._look_at(repository, head)
        if head.commit is not None:
            tree = _tree_of(repository, own, head.commit)
            own.read("read-tree", tree)
        else:
            tree = own.write("write-tree").strip().decode()
        links = {inner: entries[0] for inner, entries in list_index(own).items() if entries[0].mode == GITLINK}
        self._add(name, repository, own, head, tree, None)
        return [_Nested(_joined(name, inner), link.object_id.decode()) for inner, link in links.items()]

    def _nested(self, live: Path, nested: _Nested) -> list[_Nested]:
        """Read a repository inside another; its files alone, when it cannot be read."""
        try:
            found = repository_at(live)
            if found is not None:
                check_index(found, read_head(found))
                return self._work(found, nested.name)
            why = "it is incomplete"
        except TowerError as error:
            if error.code not in ("git-failed", "repository"):
                raise
            why = str(error)
        self.notes.append(f"{shown(nested.name)} has its files here, but not its history: {why}")
        return self._work(Repository(top=str(live), git_dir=None, common_dir=None), nested.name)

    def _submodule(self, live: Path, nested: _Nested) -> list[_Nested]:
        """Read the commit of a submodule that HEAD names, when the live tree has it."""
        try:
            found = repository_at(live)
            if found is not None:
                return self._head(found, nested.name, nested.commit)
            why = "it is not checked out"
        except InvalidError as error:
            why = str(error)
        self.notes.append(f"{shown(nested.name)}, a submodule, is empty here: {why}")
        return []

    def _add(
        self, name: bytes, repository: Repository, own: GitDir, head: Head, tree: str, found: Capture | None
    ) -> None:
        refs = dict(read_refs(repository))
        if head.branch is not None:
            refs.pop(head.branch, None)
            if head.commit is not None:
                refs[head.branch] = head.commit
        part = Part(name=name, repository=repository, own=own, head=head, tree=tree, refs=refs, found=found)
        self.parts.append(part)

    def _look_at(self, repository: Repository, head: Head) -> GitDir:
        number = str(len(self.parts) + 1)
        objects = self._objects / number
        # What was read before may have failed half-way.
        for old in (objects, self._looks / number):
            shutil.rmtree(old, ignore_errors=True)
        for folder in ("info", "pack"):
            (objects / folder).mkdir(parents=True)
        form = object_format(repository, head)
        return looking_at(repository, str(self._looks / number), head=head, object_format=form, objects=str(objects))

    def _make_repository(self, part: Part, own: GitDir, tree: Path, *, sparse: bool) -> GitDir:
        """Give the folder its own `.git`, with the index of `own`: what an agent's git works with."""
        path = str(tree / ".git")
        # No collection of garbage in a repository that lives for one run.
        settings = {"gc.auto": "0"} | ({"core.sparseCheckout": "true"} if sparse else {})
        objects = self._home / Path(own.objects).relative_to(self._place)
        make_git_dir(
            path,
            head=part.head,
            object_format=own.object_format,
            settings=settings,
            alternates=(str(objects), *own.borrowed),
            refs=part.refs,
        )
        copy_info(part.repository, path)
        if sparse:
            copy_sparse_patterns(part.repository, path)
        index = Path(own.index)
        if index.exists():
            index.rename(f"{path}/index")
        return GitDir(
            path=path,
            work_tree=str(tree),
            index=f"{path}/index",
            objects=f"{path}/objects",
            # While the folder is on its way, its alternates lead where it will stand.
            borrowed=(own.objects, *own.borrowed),
            object_format=own.object_format,
        )


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


def _bring(part: Part, tree: Path, laid: Path) -> GitDir:
    """Turn the files in `tree`, which the index `laid` knows, into those of `part`, and look at that folder."""
    # Its time goes along: git looks again at what was written in the second of the index.
    shutil.copy2(laid, part.own.index)
    there = dataclasses.replace(part.own, work_tree=str(tree))
    there.read("read-tree", "--reset", "-u", part.tree, timeout=PATIENT)
    return there


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
