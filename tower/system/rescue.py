"""Keeps what is not committed in a live tree under a ref of its repository, before somebody goes on there.

The one place where the tower writes into a user's repository by itself: objects, and one ref that no branch sees.
When that is due is the engine's.
"""

from __future__ import annotations

import dataclasses
import os
import tempfile
from pathlib import Path
from typing import Final

from tower.core.errors import BusyError, TowerError
from tower.system.capture import Capture, capture
from tower.system.files import sync_folder
from tower.system.git import shown
from tower.system.gitdir import GitDir, looking_at
from tower.system.listing import GITLINK
from tower.system.repository import Repository, find_repository, object_format, read_file, read_head, repository_at
from tower.system.treestore import PRIVATE_OBJECTS
from tower.system.volumes import writable

RESCUE: Final = "refs/tower/rescue/"
"""Where rescued states are kept; the name of the run follows."""

_CALM_WITHIN: Final = 10.0
"""Seconds that the tree has to hold still for."""

_DURABLE: Final = ("core.fsync=all", "core.fsyncMethod=fsync", "user.name=tower", "user.email=tower@localhost")
"""Here it matters after a power cut, and git wants to know who commits."""

_SMALL: Final = 1 << 10


def rescue(live: str, name: str, *, store: str, exclude: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Keep the uncommitted state of the repository around `live`, and of those in it, as `refs/tower/rescue/NAME`.

    Returns the top folders of the repositories where there was something to keep. Neither index nor files are touched.
    What was kept under the name before stays reachable from the new commit. `store` is that of `treestore`. Raises
    `InvalidError` for no repository, `BusyError` for a tree that does not hold still or a full disk, and `TowerError`
    for what git says.
    """
    kept = []
    waiting = [find_repository(live)]
    try:
        while waiting:
            repository = waiting.pop()
            with tempfile.TemporaryDirectory(prefix="tower-") as scratch:
                inner, is_kept = _keep(repository, name, f"{scratch}/look", store, exclude)
            kept += [repository.top] * is_kept
            nested = (repository_at(Path(repository.top, os.fsdecode(one))) for one in inner)
            waiting += (one for one in nested if one is not None)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise BusyError("rescue", f"cannot keep what is not committed in {shown(live)}: {why}") from error
    return tuple(kept)


def _keep(
    repository: Repository, name: str, look: str, store: str, exclude: tuple[str, ...]
) -> tuple[tuple[bytes, ...], bool]:
    head = read_head(repository)
    form = object_format(repository, head)
    objects = str(writable(store, form) / "objects")
    own = looking_at(repository, look, head=head, object_format=form, objects=objects)
    own = dataclasses.replace(own, settings=(PRIVATE_OBJECTS,))
    found = capture(repository, own, exclude=exclude, calm_within=_CALM_WITHIN)
    _as_recorded(own, found)
    tree = own.write("write-tree", "--missing-ok").strip().decode()
    base = _tree_of(own, found.head.commit)
    if tree == base:
        return found.inner, False
    before = _known(repository, name)
    if before is None or tree != _tree_of(own, before):
        new = _objects(own, base, tree)
        theirs = dataclasses.replace(own, objects=repository.objects[0], settings=_DURABLE)
        packed = own.read("pack-objects", "--stdout", "-q", input=new)
        try:
            theirs.write("unpack-objects", "-q", input=packed)
        except TowerError as error:
            # Its disk is full or read-only, or it is somebody else's: whoever goes on there has to wait.
            raise BusyError(
                "rescue",
                f"cannot keep what is not committed in {shown(repository.top)}: {error.sentence}",
                "see that the tower's user can write to its git directory",
            ) from error
        parents = [part for commit in (found.head.commit, before) if commit for part in ("-p", commit)]
        message = f"What was not committed when {name} was cut off\n".encode()
        _point(repository, name, theirs.write("commit-tree", *parents, tree, input=message).strip())
    return found.inner, True


def _objects(own: GitDir, base: str, tree: str) -> bytes:
    """Ids of what is in `tree` and not in `base`, a line each. Some the repository may have all the same."""
    fields = own.read("diff-tree", "-r", "-t", "-z", "--raw", "--no-renames", base, tree).split(b"\0")[::2]
    told = (meta.split(b" ") for meta in fields if meta)
    ids = {meta[3] for meta in told if meta[1] != GITLINK and meta[3].strip(b"0")}
    return b"".join(one + b"\n" for one in sorted(ids | {tree.encode()}))


def _as_recorded(own: GitDir, found: Capture) -> None:
    """Files that differ in bytes and not in meaning (a filter stands between) are not taken for changes."""
    lines = [
        b"%s %s 0\t%s\0" % (entries[0].mode, entries[0].object_id, path)
        for path, entries in found.listing.items()
        if path in found.clean and entries[0].stage == 0
    ]
    if lines:
        own.read("update-index", "-z", "--index-info", input=b"".join(lines))


def _tree_of(own: GitDir, commit: str | None) -> str:
    if commit is None:
        return own.write("mktree", input=b"").strip().decode()  # the tree that holds nothing
    return own.read("rev-parse", "--verify", f"{commit}^{{tree}}").strip().decode()


def _ref(repository: Repository, name: str) -> Path:
    return Path(repository.common_dir or repository.top, RESCUE, name)


def _known(repository: Repository, name: str) -> str | None:
    found = read_file(_ref(repository, name), _SMALL)
    return None if found is None else found[0].strip().decode()


def _point(repository: Repository, name: str, commit: bytes) -> None:
    """Write the ref as git would: `git update-ref` would read the repository's configuration."""
    ref = _ref(repository, name)
    common = Path(os.path.realpath(repository.common_dir or repository.top))
    ref.parent.mkdir(parents=True, exist_ok=True)
    if Path(os.path.realpath(ref.parent)) != common / RESCUE:
        raise TowerError(
            "rescue", f"cannot keep a ref in {shown(str(ref.parent))}: a link leads elsewhere", "remove the link"
        )
    # git takes no name with that ending for a ref, and removes none.
    with tempfile.NamedTemporaryFile(dir=ref.parent, suffix=".lock", delete=False) as file:
        file.write(commit + b"\n")
        file.flush()
        os.fsync(file.fileno())
    Path(file.name).chmod(0o644)
    Path(file.name).rename(ref)
    sync_folder(ref.parent)
