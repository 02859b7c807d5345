"""The entries of an index, as git lists them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from tower.core.errors import InvalidError
from tower.system.git import shown
from tower.system.gitdir import GitDir

GITLINK: Final = b"160000"
"""Mode of an entry that names a commit of another repository: a submodule."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry; a path in conflict has up to three, of stages 1 to 3."""

    mode: bytes
    object_id: bytes
    stage: int
    sparse: bool = False
    """Marked as not checked out (skip-worktree)."""
    assumed: bool = False
    """Marked as not to be looked at (assume-unchanged)."""


Listing = Mapping[bytes, tuple[Entry, ...]]
"""Path -> its entries."""


_LEADS_ASTRAY: Final = re.compile(rb"(?:^|/)(?:\.{0,2}|\.git)(?:/|$)", re.IGNORECASE)
"""Names of which git makes no index, but checks out those that it finds in one: above the tree, or into `.git`."""


def list_index(own: GitDir) -> Listing:
    """Read the whole index of `own`.

    Raises what `git` raises, and `InvalidError` for an index that somebody forged to have files written elsewhere.
    """
    return parse_listing(read_listing(own), own.work_tree)


def read_listing(own: GitDir) -> bytes:
    """The whole index of `own`, as git lists it. Raises what `git` raises."""
    return own.read("ls-files", "-z", "--stage", "-v")


def parse_listing(text: bytes, tree: str) -> Listing:
    """What `read_listing` gave; `tree` is named in what is raised, see `list_index`."""
    listing: dict[bytes, tuple[Entry, ...]] = {}
    for record in text.split(b"\0")[:-1]:
        head, _, name = record.partition(b"\t")
        if _LEADS_ASTRAY.search(name):
            raise InvalidError(
                "repository",
                f"cannot take a snapshot of {shown(tree)}: its index names {shown(name)!r}, which no git does",
                "remove the file `index` in its git directory, then run `git reset`",
            )
        tag, mode, object_id, stage = head.split(b" ")
        entry = Entry(mode, object_id, int(stage), tag in b"Ss", tag.islower())
        listing[name] = (*listing.get(name, ()), entry)
    return listing


def is_sparse(listing: Listing) -> bool:
    """Whether part of it is marked as not checked out."""
    return any(entry.sparse for entries in listing.values() for entry in entries)


def alike(some: tuple[Entry, ...], others: tuple[Entry, ...]) -> bool:
    """Whether they record the same content; marks do not matter."""
    return [(e.mode, e.object_id, e.stage) for e in some] == [(e.mode, e.object_id, e.stage) for e in others]


def folders_of(names: Iterable[bytes]) -> set[bytes]:
    """Every folder on the way to one of the names, the top (empty) included."""
    folders = {b""}
    for name in names:
        folder = name.rpartition(b"/")[0]
        while folder not in folders:
            folders.add(folder)
            folder = folder.rpartition(b"/")[0]
    return folders
