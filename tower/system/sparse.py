"""Unfolds an index that records folders which are not checked out as a whole (`index.sparse`).

Most git commands unfold such an index by themselves, and while doing so touch objects of the live repository, or, when
they cannot see those, drop the folders without a word. So it is done once, with copies of the folders' tree objects.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tower.system.gitdir import GitDir, copy_sparse_patterns
from tower.system.repository import Repository

_SIGNATURE: Final = b"sdir"
"""Of the extension by which an index says that it is sparse (gitformat-index)."""


_LEAVE_FOLDED: Final = (
    *("-c", "index.sparse=true"),
    *("-c", "core.sparseCheckoutCone=true"),
    *("-c", "sparse.expectFilesOutsideOfPatterns=true"),
)
"""All that git wants to be told, beside the patterns, before it lists such an index as it is."""


def unfold(repository: Repository, own: GitDir) -> None:
    """Rewrite the index of `own` so that every file is an entry. Does nothing to an ordinary one.

    Raises what `git` raises, and `OSError`.
    """
    index = Path(own.index)
    if not index.exists() or _SIGNATURE not in index.read_bytes():
        return
    copy_sparse_patterns(repository, own.path)
    told = own.write(*_LEAVE_FOLDED, "ls-files", "-z", "--sparse", "--stage")
    folded = [record.split(b" ")[1] for record in told.split(b"\0") if record.startswith(b"040000 ")]
    if not folded:
        return
    options = ("--objects", "--no-object-names", "--filter=blob:none", "--stdin")
    trees = own.read("rev-list", *options, input=b"".join(tree + b"\n" for tree in folded))
    own.read("pack-objects", "-q", f"{own.objects}/pack/pack", input=trees)
    own.write("update-index", "--force-write-index")
