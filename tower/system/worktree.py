"""Work trees of chains: a linked work tree of the live repository on a branch of its own, and its removal on proof.

Made as `git worktree add` makes one, by hand: that command reads the repository's configuration and runs what an agent
may have written there. Files come out as git keeps them, without filters. Who gets one is the engine's.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tower.core.errors import ConflictError, InvalidError, TowerError
from tower.system.changes import changes_since
from tower.system.files import sync_folder
from tower.system.git import PATIENT, git, shown
from tower.system.gitdir import AS_IT_STANDS, GitDir, looking_at
from tower.system.listing import GITLINK, Listing, list_index
from tower.system.repository import (
    Repository,
    find_repository,
    object_format,
    read_head,
    read_refs,
    repository_at,
    resolve_ref,
)
from tower.system.workspace import remove_workspace

BRANCHES: Final = "refs/heads/"


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
    place, ref = Path(path), f"{BRANCHES}{branch}"
    try:
        if place.exists():
            return Worktree(path=path, branch=branch, base=resolve_ref(repository, ref) or "")
        head = read_head(repository).commit
        if head is None:
            raise InvalidError(
                "no-commit",
                f"cannot make a work tree of {shown(repository.top)}: it has no commit yet",
                'commit something there, or let the pipeline have workspace = "shared"',
            )
        admin = Path(repository.common_dir, "worktrees", place.name)
        base = resolve_ref(repository, ref)
        if base is None:
            _write(Path(repository.common_dir, ref), f"{head}\n")
            base = head
        elif not admin.exists() and base != head:
            raise ConflictError("branch-taken", f"cannot make a work tree: the branch {branch} is there already")
        notes = _check_out(repository, admin, place, ref, base)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise TowerError("worktree", f"cannot make a work tree in {shown(path)}: {why}") from error
    return Worktree(path=path, branch=branch, base=base, notes=notes)


def why_kept(path: str, branch: str) -> str | None:
    """Why removing a work tree would lose something, in words; None: it holds nothing that is not elsewhere.

    Raises `TowerError` when that cannot be told.
    """
    repository = repository_at(Path(path))
    if repository is None:
        raise InvalidError("worktree", f"cannot look into {shown(path)}: it is no work tree any more")
    head = read_head(repository)
    changes = changes_since(path, head.commit)
    if changes.unknown is not None:
        raise TowerError("worktree", f"cannot tell what is in {shown(path)}: {changes.unknown}")
    if changes.files:
        more = len(changes.files) + changes.more - 1
        return f"{changes.files[0]}{f' and {more} more' if more else ''} changed and not committed"
    ref = f"{BRANCHES}{branch}"
    mine = {commit for commit in (head.commit, resolve_ref(repository, ref)) if commit is not None}
    others = {commit for name, commit in read_refs(repository).items() if name != ref}
    left = _only_in(repository, mine, others)
    return f"{left} commits of {branch} that no other branch has" if left else None


def remove_worktree(live: str, path: str, branch: str) -> str | None:
    """Remove a work tree with its branch; says what is left, in words. The branch stays when its commits are needed.

    Only for one that `why_kept` has nothing to say of, or that was rescued.
    """
    repository = find_repository(live)
    place, ref = Path(path), f"{BRANCHES}{branch}"
    others = {commit for name, commit in read_refs(repository).items() if name != ref}
    tip = resolve_ref(repository, ref)
    problem = remove_workspace(path)
    admin = Path(repository.common_dir or repository.top, "worktrees", place.name)
    if not problem:
        shutil.rmtree(admin, ignore_errors=True)
        if tip is not None and not _only_in(repository, {tip}, others):
            # Compared with what was looked at: a commit made meanwhile keeps the branch.
            git(["update-ref", "-d", ref, tip], git_dir=str(repository.common_dir), cwd=str(repository.common_dir))
    return problem


def _only_in(repository: Repository, mine: set[str], others: set[str]) -> int:
    """How many commits are reachable from `mine` alone."""
    with tempfile.TemporaryDirectory(prefix="tower-") as scratch:
        own = _own(repository, Path(scratch, "look"))
        given = "".join(f"{commit}\n" for commit in mine) + "".join(f"^{commit}\n" for commit in others)
        told = own.read("rev-list", "--count", "--ignore-missing", "--stdin", input=given.encode())
        return int(told)


def _own(repository: Repository, look: Path) -> GitDir:
    head = read_head(repository)
    objects = look.with_name("objects")
    for folder in ("info", "pack"):
        (objects / folder).mkdir(parents=True)
    form = object_format(repository, head)
    return looking_at(repository, str(look), head=replace(head, branch=None), object_format=form, objects=str(objects))


def _check_out(repository: Repository, admin: Path, place: Path, ref: str, base: str) -> tuple[str, ...]:
    """Lay out the commit beside its place, and rename it there when git knows of it."""
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".new-", dir=place.parent) as scratch:
        tree = Path(scratch, "tree")
        tree.mkdir()
        own = replace(_own(repository, Path(scratch, "look")), work_tree=str(tree))
        own.set_info("attributes", AS_IT_STANDS)
        own.read("read-tree", base)
        own.read("checkout-index", "--all", "--index", timeout=PATIENT)
        listing = list_index(own)
        notes = _notes(listing)
        admin.mkdir(parents=True, exist_ok=True)
        for name, text in (("HEAD", f"ref: {ref}"), ("commondir", "../.."), ("gitdir", f"{place}/.git")):
            _write(admin / name, f"{text}\n")
        with contextlib.suppress(FileNotFoundError):
            shutil.copy2(own.index, admin / "index")
        _write(tree / ".git", f"gitdir: {admin}\n")
        tree.rename(place)
    sync_folder(place.parent)
    return notes


def _notes(listing: Listing) -> tuple[str, ...]:
    links = [name for name, entries in listing.items() if entries[0].mode == GITLINK]
    told = []
    if links:
        told.append(f"submodules are empty in this work tree: {', '.join(shown(name) for name in links[:5])}")
    if any(name.rpartition(b"/")[2] == b".gitattributes" for name in listing):
        told.append("files that a filter stands before (git LFS, say) are as git keeps them in this work tree")
    return tuple(told)


def _write(path: Path, text: str) -> None:
    """One file of git's, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".lock", delete=False) as file:
        file.write(os.fsencode(text))
        file.flush()
        os.fsync(file.fileno())
    Path(file.name).chmod(0o644)
    Path(file.name).rename(path)
