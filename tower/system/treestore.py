"""Trees that were named before and after a writer's run, kept so that what the run changed can be shown later.

Contents go to object folders of the tower's own; whatever the live repository has itself is only borrowed from it.
When a tree is named is the engine's; that the work is not lost is `rescue`'s.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Final

from tower.core.errors import ConflictError, NotFoundError, TowerError
from tower.system.capture import capture
from tower.system.git import PATIENT, git, shown
from tower.system.gitdir import GitDir, looking_at
from tower.system.listing import list_index
from tower.system.repository import Head, Repository, find_repository, object_format, read_head, repository_at
from tower.system.volumes import holds, volumes, writable

CALM_WITHIN: Final = 3.0
"""Seconds that a live tree has to hold still for: a start waits for it, and can do without."""

LARGEST: Final = 64 << 20
"""Bytes of changed contents of which a patch is made: the answer is held in memory."""

PRIVATE_OBJECTS: Final = "core.sharedRepository=0600"
"""For git commands that write here: what the tower keeps is for its own user alone."""

_BORROWED: Final = "borrowed"
"""File with the object folders of the live repositories whose contents are not copied, NUL-terminated."""


class Form(StrEnum):
    """How a difference is shown."""

    PATCH = "patch"
    STAT = "stat"
    NAMES = "names"


_OPTIONS: Final = {
    Form.PATCH: ("--patch", "--binary", "--full-index"),
    Form.STAT: ("--stat=100",),
    Form.NAMES: ("--name-status",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A live tree by the name of its content."""

    tree: str
    """Git tree id, the files of nested repositories included."""
    head: Head
    notes: tuple[str, ...] = ()


def name_tree(live: str, store: str, *, exclude: tuple[str, ...] = ()) -> Named:
    """Name what the repository around `live` holds, so that `difference` can show it later; the folder `store` is made.

    Nothing is written to the live tree. `exclude` are absolute paths that do not belong to it. Raises `InvalidError`
    for a folder that lies in no repository, `BusyError` for a tree that does not hold still and for a full disk, and
    what `git` raises.
    """
    repository = find_repository(live)
    try:
        with tempfile.TemporaryDirectory(prefix="tower-") as scratch:
            return _Naming(store, Path(scratch), exclude).whole(repository)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise TowerError("tree", f"cannot name what {shown(live)} holds: {why}") from error


def difference(store: str, before: str, after: str, form: Form = Form.PATCH) -> bytes:
    """What changed between two named trees, as git shows it; names and contents may be any bytes.

    Raises `NotFoundError` when a content is gone, `ConflictError` for more than `LARGEST` bytes of it, and what `git`
    raises.
    """
    places = volumes(store, "sha256" if len(before) == 64 else "sha1")
    if not places:
        raise _gone(before)
    place = next((one for one in places if holds(one, [before])), places[0])
    others = [f"{one}/objects" for one in places if one != place]
    borrowed = [folder for one in places for folder in _borrowed(one)]
    kept = _Kept(place, tuple(dict.fromkeys(others + borrowed)))
    try:
        for tree in (before, after):
            kept.ask("cat-file", "-e", f"{tree}^{{tree}}")
        if form is Form.PATCH:
            kept.check_size(before, after)
        return kept.ask("diff-tree", "-r", "-M", "--no-ext-diff", "--no-textconv", *_OPTIONS[form], before, after)
    except TowerError as error:
        if error.code != "git-failed":
            raise
        raise _gone(before) from error


@dataclass(frozen=True, slots=True)
class _Kept:
    """The kept trees of one object format, to ask of."""

    place: Path
    borrowed: tuple[str, ...]

    def ask(self, *args: str, given: bytes | None = None) -> bytes:
        place = str(self.place)
        objects = f"{place}/objects"
        return git(
            args, git_dir=place, objects=objects, alternates=self.borrowed, cwd=place, input=given, timeout=PATIENT
        )

    def check_size(self, before: str, after: str) -> None:
        """Raise `ConflictError` when a patch would have to hold too much."""
        fields = self.ask("diff-tree", "-r", "-z", "--raw", before, after).split(b"\0")[::2]
        ids = {one for meta in fields for one in meta.split(b" ")[2:4] if one.strip(b"0")}
        told = self.ask("cat-file", "--batch-check=%(objectsize)", given=b"".join(one + b"\n" for one in sorted(ids)))
        size = sum(int(line) for line in told.split(b"\n") if line.isdigit())
        if size > LARGEST:
            raise ConflictError(
                "diff-size",
                f"cannot show the patch: {size >> 20} MiB of changed files are more than {LARGEST >> 20}",
                "--stat and --names show which they are",
            )


class _Naming:
    """One tree being named, with all repositories in it."""

    def __init__(self, store: str, scratch: Path, exclude: tuple[str, ...]) -> None:
        self._store = store
        self._scratch = scratch
        self._exclude = exclude
        self._count = 0
        self._notes: list[str] = []
        self._borrowed: list[str] = []

    def whole(self, repository: Repository) -> Named:
        head = read_head(repository)
        place = writable(self._store, object_format(repository, head))
        own, tree, inner = self._look(repository, head, place)
        waiting = [(name, os.fsdecode(name)) for name in inner]
        lines: list[bytes] = []
        while waiting:
            name, relative = waiting.pop()
            deeper, found = self._nested(repository.top, relative, place, own.object_format)
            lines += (b"0 %s\t%s" % (own.null_id, name), *(b"%s\t%s/%s" % (what, name, path) for what, path in found))
            waiting += [(name + b"/" + one, f"{relative}/{os.fsdecode(one)}") for one in deeper]
        if lines:
            own.read("update-index", "-z", "--index-info", input=b"".join(line + b"\0" for line in lines))
            tree = own.write("write-tree", "--missing-ok").strip().decode()
        _borrow(place, self._borrowed)
        return Named(tree=tree, head=head, notes=tuple(self._notes))

    def _look(self, repository: Repository, head: Head, place: Path) -> tuple[GitDir, str, tuple[bytes, ...]]:
        """A git directory whose index has the content, its tree, and the repositories inside."""
        self._count += 1
        own = looking_at(
            repository,
            str(self._scratch / str(self._count)),
            head=head,
            object_format=object_format(repository, head),
            objects=str(place / "objects"),
        )
        own = replace(own, settings=(PRIVATE_OBJECTS,))
        found = capture(repository, own, exclude=self._exclude, calm_within=CALM_WITHIN)
        self._borrowed += repository.objects
        return own, found.tree, found.inner

    def _nested(
        self, top: str, name: str, place: Path, form: str
    ) -> tuple[tuple[bytes, ...], list[tuple[bytes, bytes]]]:
        """The repositories in a nested one, and its entries as an index takes them; nothing when it cannot be read."""
        try:
            found = repository_at(Path(top, name))
            if found is None or object_format(found, head := read_head(found)) != form:
                self._notes.append(f"what changes in {shown(name)}, a repository of its own, is not shown")
                return (), []
            own, _, inner = self._look(found, head, place)
        except TowerError as error:
            if error.code not in ("git-failed", "repository"):
                raise
            self._notes.append(f"what changes in {shown(name)}, a repository of its own, is not shown: {error}")
            return (), []
        entries = [
            (b"%s %s 0" % (one[0].mode, one[0].object_id), path)
            for path, one in list_index(own).items()
            if path not in inner
        ]
        return inner, entries


def _borrowed(place: Path) -> tuple[str, ...]:
    try:
        text = (place / _BORROWED).read_bytes()
    except FileNotFoundError:
        return ()
    return tuple(os.fsdecode(path) for path in text.split(b"\0") if path and Path(os.fsdecode(path)).is_dir())


def _borrow(place: Path, folders: Iterable[str]) -> None:
    """Remember object folders. Two that write at once may lose one of the lines; the next naming adds it again."""
    known = _borrowed(place)
    new = [folder for folder in dict.fromkeys(folders) if folder not in known]
    if new:
        with (place / _BORROWED).open("ab") as file:
            file.write(b"".join(os.fsencode(folder) + b"\0" for folder in new))


def _gone(tree: str) -> NotFoundError:
    return NotFoundError(
        "tree-gone",
        f"cannot show what changed: the content of tree {tree} is not to be found any more",
        "it is gone when the live repository was moved, or its dropped commits were pruned",
    )
