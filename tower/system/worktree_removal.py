"""The end of a chain's work tree: whether it may go without anything being lost, and its going.

Looked at are the repository itself, the submodules that have a branch of the chain, and every other repository in the
tree. How one is made is `worktree`'s, when one is to go the engine's.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tower.core.errors import InvalidError, TowerError
from tower.system.changes import changes_since
from tower.system.git import git, shown
from tower.system.gitdir import copy_index
from tower.system.listing import GITLINK, list_index
from tower.system.repository import Repository, find_repository, read_head, read_refs, repository_at, resolve_ref
from tower.system.workspace import remove_workspace
from tower.system.worktree import BRANCHES, admin_of, look_at

_MINE: Final = ("refs/heads/", "refs/tags/")
"""What somebody made in a repository of his own, other than what he fetched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """One repository that the work tree has to do with."""

    name: str
    """Its place from the top, as it is shown; empty for the outermost."""
    repository: Repository
    goes: bool = False
    """Its commits go along with the work tree."""
    twin: Repository | None = None
    """Of one that goes: the same one of the live tree."""


def why_kept(live: str, path: str, branch: str) -> str | None:
    """Why removing a work tree would lose something, in words; None: it holds nothing that is not elsewhere.

    Raises `TowerError` when that cannot be told.
    """
    outer = _outer(path)
    inside = list(_inside(find_repository(live), outer))
    for part in (_Part(name="", repository=outer), *inside):
        uncommitted = _uncommitted(part)
        if uncommitted is not None:
            return uncommitted
    shared = (_Part(name=name, repository=one) for name, one in _modules_of(outer, Path(path), branch))
    for part in (_Part(name="", repository=outer), *inside, *_hidden(outer), *shared):
        left = _only_here(part, f"{BRANCHES}{branch}")
        if left:
            where = f"{branch} in {part.name}" if part.name else branch
            return f"{left} commits of {where} that no other branch has" if not part.goes else _alone(part, left)
    return None


def why_lost(live: str, path: str) -> str | None:
    """What a rescue cannot keep, in words: work in repositories whose own data go along with the work tree; None: none.

    Raises `TowerError` when that cannot be told.
    """
    outer = _outer(path)
    for part in (*_inside(find_repository(live), outer), *_hidden(outer)):
        if part.goes:
            left = _only_here(part, "")
            uncommitted = _uncommitted(part) if part.repository.top != outer.top else None
            if left or uncommitted is not None:
                return uncommitted or _alone(part, left)
    return None


def remove_worktree(live: str, path: str, branch: str) -> str | None:
    """Remove a work tree with its branches; says what is left, in words. A branch stays where its commits are needed.

    Only for one that `why_kept` has nothing to say of, or that was rescued.
    """
    outer = find_repository(live)
    place = Path(path)
    # Looked for before their records go.
    shared = [one for _, one in _modules_of(outer, place, branch)]
    problem = remove_workspace(path)
    if not problem:
        for repository in (outer, *shared):
            shutil.rmtree(admin_of(repository.common_dir or repository.top, place), ignore_errors=True)
            # What the work tree's HEAD was is gone with that.
            _remove_branch(replace(repository, git_dir=repository.common_dir), f"{BRANCHES}{branch}")
    return problem


def _outer(path: str) -> Repository:
    repository = repository_at(Path(path))
    if repository is None:
        raise InvalidError("worktree", f"cannot look into {shown(path)}: it is no work tree any more")
    return repository


def _inside(live: Repository, outer: Repository) -> Iterator[_Part]:
    """Every repository in the tree that git does not ignore."""
    waiting = [(b"", outer)]
    while waiting:
        above, repository = waiting.pop()
        for inner in _nested(repository):
            name = above + b"/" + inner if above else inner
            place = Path(outer.top, os.fsdecode(name))
            found = repository_at(place)
            if found is None or found.common_dir is None:
                raise InvalidError("worktree", f"cannot look into {shown(str(place))}: its git data are broken")
            common, twin = Path(found.common_dir), repository_at(Path(live.top, os.fsdecode(name)))
            stays = common.is_relative_to(outer.common_dir or "/") and not common.is_relative_to(outer.git_dir or "/")
            yield _Part(name=shown(name), repository=found, goes=not stays, twin=twin)
            waiting.append((name, found))


def _nested(repository: Repository) -> set[bytes]:
    """The folders of one repository that have a `.git` of their own."""
    with tempfile.TemporaryDirectory(prefix="tower-") as scratch:
        own = look_at(repository, Path(scratch))
        copy_index(repository, own)
        links = {name for name, entries in list_index(own).items() if entries[0].mode == GITLINK}
        others = own.read("ls-files", "-z", "--others", "--exclude-standard").split(b"\0")
    names = links | {name[:-1] for name in others if name.endswith(b"/")}
    places = {name: Path(repository.top, os.fsdecode(name)) for name in names}
    return {
        name
        for name, place in places.items()
        if os.path.lexists(place / ".git") and os.path.realpath(place) == str(place)
    }


def _hidden(outer: Repository) -> Iterator[_Part]:
    """What `git submodule update` cloned for this work tree alone, in the tree or not."""
    for place in _git_dirs(Path(outer.git_dir or "")):
        name = place.relative_to(outer.git_dir or "").as_posix()
        twin = Path(outer.common_dir or "", name)
        known = _bare(outer, twin) if (twin / "HEAD").exists() else None
        yield _Part(name=shown(name), repository=_bare(outer, place), goes=True, twin=known)


def _modules_of(outer: Repository, place: Path, branch: str) -> Iterator[tuple[str, Repository]]:
    """The live tree's submodules that have the chain's branch, each as this work tree sees it; named as git does."""
    for module in _git_dirs(Path(outer.common_dir or "")):
        admin, found = admin_of(str(module), place), _bare(outer, module)
        if admin.exists() or resolve_ref(found, f"{BRANCHES}{branch}") is not None:
            seen = replace(found, git_dir=str(admin)) if (admin / "HEAD").exists() else found
            yield shown(module.relative_to(outer.common_dir or "").as_posix()), seen


def _git_dirs(above: Path) -> Iterator[Path]:
    """The git directories of submodules below one; names of submodules may have slashes."""
    waiting = [above / "modules"]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                folders = [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]
        except FileNotFoundError:
            continue
        for folder in folders:
            if (folder / "HEAD").exists():
                yield folder
                waiting.append(folder / "modules")
            else:
                waiting.append(folder)


def _bare(outer: Repository, place: Path) -> Repository:
    """A git directory of which no work tree is looked at."""
    return Repository(top=outer.top, git_dir=str(place), common_dir=str(place))


def _uncommitted(part: _Part) -> str | None:
    top = part.repository.top
    changes = changes_since(top, read_head(part.repository).commit)
    if changes.unknown is not None:
        raise TowerError("worktree", f"cannot tell what is in {shown(top)}: {changes.unknown}")
    if not changes.files:
        return None
    more = len(changes.files) + changes.more - 1
    first = f"{part.name}/{changes.files[0]}" if part.name else changes.files[0]
    return f"{first}{f' and {more} more' if more else ''} changed and not committed"


def _only_here(part: _Part, ref: str) -> int:
    """How many commits of a part would be lost, if it goes; or are on the chain's branch alone."""
    refs, head = read_refs(part.repository), read_head(part.repository).commit
    if part.goes:
        mine = {commit for name, commit in refs.items() if name.startswith(_MINE)}
        mine |= {commit for commit in (head, resolve_ref(part.repository, "refs/stash")) if commit is not None}
        others = {commit for name, commit in refs.items() if not name.startswith(_MINE)}
        others |= set(read_refs(part.twin).values()) if part.twin is not None else set()
    else:
        mine = {commit for commit in (head, resolve_ref(part.repository, ref)) if commit is not None}
        others = {commit for name, commit in refs.items() if name != ref}
    return _only_in(part.repository, mine, others, part.twin)


def _only_in(repository: Repository, mine: set[str], others: set[str], twin: Repository | None = None) -> int:
    """How many commits are reachable from `mine` alone."""
    with tempfile.TemporaryDirectory(prefix="tower-") as scratch:
        own = look_at(repository, Path(scratch))
        if twin is not None:
            own = replace(own, borrowed=(*own.borrowed, *twin.objects))
        given = "".join(f"{commit}\n" for commit in mine) + "".join(f"^{commit}\n" for commit in others)
        told = own.read("rev-list", "--count", "--ignore-missing", "--stdin", input=given.encode())
        return int(told)


def _remove_branch(repository: Repository, ref: str) -> None:
    tip = resolve_ref(repository, ref)
    others = {commit for name, commit in read_refs(repository).items() if name != ref}
    if tip is not None and not _only_in(repository, {tip}, others):
        # Compared with what was looked at: a commit made meanwhile keeps the branch.
        common = str(repository.common_dir)
        git(["update-ref", "-d", ref, tip], git_dir=common, cwd=common)


def _alone(part: _Part, left: int) -> str:
    return f"{left} commits in {part.name}, a repository of its own, that are nowhere else"
