"""A git directory of the tower's own, through which git looks at a tree without meeting what lies in that tree's own.

Owns what is in it: format, copied index (with its time), copied patterns, and which objects may be read and written.
What git is asked through it is `capture`'s, `snapshot`'s and `changes`'.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tower.system.git import git, quoted
from tower.system.repository import Head, Repository, read_file

PRIVATE: Final = 0o700

AS_IT_STANDS: Final = b"* -text !eol -ident -filter !working-tree-encoding\n"
"""As info/attributes, which beats every .gitattributes: bytes pass unchanged in both directions. Two of them are
unspecified, not unset: git calls an unset encoding an error."""

_EXPAND_SPARSE: Final = {"core.sparseCheckout": "true"}
"""With it git looks whether an entry marked as not checked out is there all the same, and then reads it."""

LARGEST: Final = 1 << 30
"""Bytes of an index: some ten million files."""

_COPIED: Final = ("info/exclude", "info/attributes", "shallow")


@dataclass(frozen=True, slots=True, kw_only=True)
class GitDir:
    """One git directory of the tower's, for one tree."""

    path: str
    work_tree: str
    index: str
    objects: str
    """Where new objects go."""
    borrowed: tuple[str, ...] = ()
    """Object folders of the live repository, only ever read."""
    object_format: str = "sha1"
    settings: tuple[str, ...] = ()
    """For every git command, beside those that always hold: `NAME=VALUE`."""

    @property
    def null_id(self) -> bytes:
        """The id of no object."""
        return b"0" * (64 if self.object_format == "sha256" else 40)

    def read(self, *args: str, input: bytes | None = None, timeout: float | None = None) -> bytes:
        """Run git with all objects in sight. For commands that write no object: see `write`."""
        return self._run(args, self.borrowed, input, timeout)

    def write(self, *args: str, input: bytes | None = None, timeout: float | None = None) -> bytes:
        """Run a git command that writes objects.

        The borrowed ones are out of sight: git sets the file time of an object that it would have written and finds
        elsewhere, and nothing of the live repository may change, its times included.
        """
        return self._run(args, (), input, timeout)

    def set_info(self, name: str, text: bytes) -> None:
        """Write `info/NAME`. Raises `OSError`."""
        Path(self.path, "info", name).write_bytes(text)

    def add_info(self, name: str, text: bytes) -> None:
        """Add to `info/NAME`. Raises `OSError`."""
        with Path(self.path, "info", name).open("ab") as file:
            file.write(b"\n" + text)

    def read_info(self, name: str) -> bytes | None:
        """What stands in `info/NAME`; None when there is no such file. Raises `OSError`."""
        try:
            return Path(self.path, "info", name).read_bytes()
        except FileNotFoundError:
            return None

    def has_info(self, name: str) -> bool:
        return Path(self.path, "info", name).exists()

    def _run(self, args: Sequence[str], alternates: Sequence[str], input: bytes | None, timeout: float | None) -> bytes:
        return git(
            args,
            git_dir=self.path,
            work_tree=self.work_tree,
            index=self.index,
            objects=self.objects,
            alternates=alternates,
            input=input,
            timeout=timeout,
            settings=self.settings,
        )


IndexStamp = tuple[int, int, int, int] | None
"""What tells one state of an index file from another; None when there is no index."""


def looking_at(repository: Repository, path: str, *, head: Head, object_format: str, objects: str) -> GitDir:
    """Make a git directory at `path` that sees the live tree of `repository`. Raises `OSError`.

    New objects go to `objects`. The index is not copied yet.
    """
    make_git_dir(path, head=head, object_format=object_format, settings=_EXPAND_SPARSE)
    copy_info(repository, path)
    return GitDir(
        path=path,
        work_tree=repository.top,
        index=f"{path}/index",
        objects=objects,
        borrowed=repository.objects,
        object_format=object_format,
    )


def make_git_dir(
    path: str,
    *,
    head: Head,
    object_format: str,
    settings: Mapping[str, str],
    alternates: Sequence[str] = (),
    refs: Mapping[str, str] | None = None,
) -> None:
    """Make a git directory by hand: `git init` would copy templates. Raises `OSError`."""
    place = Path(path)
    place.mkdir(mode=PRIVATE)
    for folder in ("objects/info", "objects/pack", "refs/heads", "refs/tags", "info"):
        (place / folder).mkdir(parents=True)
    (place / "config").write_text(_config(object_format, settings))
    (place / "HEAD").write_bytes(os.fsencode(_head_line(head)))
    lines = "".join(f"{commit} {name}\n" for name, commit in sorted((refs or {}).items()))
    (place / "packed-refs").write_bytes(os.fsencode(lines))
    if alternates:
        borrowed = "".join(f"{quoted(folder)}\n" for folder in alternates)
        (place / "objects/info/alternates").write_bytes(os.fsencode(borrowed))


def copy_info(repository: Repository, path: str) -> None:
    """Copy what decides on ignored files, attributes and where history ends. Raises `OSError`."""
    for name in _COPIED:
        target = Path(path, name)
        if repository.common_dir is None or _copy(Path(repository.common_dir, name), target) is None:
            target.unlink(missing_ok=True)


def copy_sparse_patterns(repository: Repository, path: str) -> None:
    """Copy the patterns of a sparse check-out; each linked work tree has its own. Raises `OSError`."""
    if repository.git_dir is not None:
        _copy(Path(repository.git_dir, "info/sparse-checkout"), Path(path, "info/sparse-checkout"))


def copy_index(repository: Repository, own: GitDir) -> IndexStamp:
    """Replace the own index by a copy of the live one, modification time included, and say which state it is.

    git trusts an entry only when it is older than the index: a copy with a newer time would hide every edit of equal
    size made in the moment before. A lock that another git holds, or left behind, does not matter here.
    """
    for old in (own.index, f"{own.index}.lock"):
        Path(old).unlink(missing_ok=True)
    if repository.git_dir is None:
        return None
    live = Path(repository.git_dir, "index")
    found = _copy(live, Path(own.index))
    for shared in live.parent.glob("sharedindex.*"):
        _copy(shared, Path(own.path, shared.name))
    return None if found is None else _stamp(found)


def index_stamp(repository: Repository) -> IndexStamp:
    """Which state the live index is in. git replaces an index as a whole and never writes into one."""
    if repository.git_dir is None:
        return None
    try:
        return _stamp(Path(repository.git_dir, "index").stat())
    except FileNotFoundError:
        return None


def _stamp(found: os.stat_result) -> IndexStamp:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _copy(source: Path, target: Path) -> os.stat_result | None:
    """Copy one file of a repository with its times, and say what it was; None when there is none."""
    read = read_file(source, LARGEST)
    if read is None:
        return None
    data, found = read
    target.write_bytes(data)
    os.utime(target, ns=(found.st_atime_ns, found.st_mtime_ns))
    return found


def _config(object_format: str, settings: Mapping[str, str]) -> str:
    version = 0 if object_format == "sha1" else 1
    lines = ["[core]", f"\trepositoryformatversion = {version}", "\tbare = false"]
    if version:
        lines += ("[extensions]", f"\tobjectFormat = {object_format}")
    for name, value in settings.items():
        section, _, key = name.partition(".")
        lines += (f"[{section}]", f"\t{key} = {value}")
    return "\n".join([*lines, ""])


def _head_line(head: Head) -> str:
    if head.branch is not None:
        return f"ref: {head.branch}\n"
    return f"{head.commit}\n" if head.commit is not None else "ref: refs/heads/main\n"
