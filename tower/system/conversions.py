"""Files whose bytes on disk are not those that git recorded, though git calls them unchanged.

A filter (LFS), an encoding or a line-ending rule stands between. The snapshot holds what is on disk, so these are read
from there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from tower.system.gitdir import GitDir
from tower.system.listing import GITLINK, Listing
from tower.system.livetree import Signature, size_of

_ATTRIBUTES: Final = ("filter", "ident", "working-tree-encoding")
"""Those that may change bytes and keep their number. Line endings (text, eol, crlf, and core.autocrlf, which is
configuration and unknown here) always change it."""

_SECOND: Final = 1_000_000_000
_WORD: Final = 0xFFFFFFFF
_DESCRIBED: Final = re.compile(
    rb"(?P<name>[^\0]+)\0  ctime: (?P<ctime>\d+:\d+)\n  mtime: (?P<mtime>\d+:\d+)\n"
    rb"  dev: \d+\tino: (?P<inode>\d+)\n  uid: \d+\tgid: \d+\n  size: (?P<size>\d+)\tflags: [0-9a-f]+\n"
)

_NOT_SET: Final = frozenset({b"unspecified", b"unset"})


def converted(
    own: GitDir,
    names: Iterable[bytes],
    listing: Listing,
    seen: Mapping[bytes, Signature | None],
    *,
    attributes: bool,
) -> set[bytes]:
    """Those of the unchanged `names` whose content must be read from disk.

    `seen` is how the files were before git found them unchanged: a size from later might be that of an edit.
    `attributes` says whether the tree has any .gitattributes. Raises what `git` raises.
    """
    plain = [name for name in names if _is_plain(listing, name)]
    found = _of_other_size(own, plain, listing, seen)
    if attributes or own.has_info("attributes") or any(name.endswith(b".gitattributes") for name in listing):
        found |= _with_attributes(own, plain)
    return found


def untouched(own: GitDir, names: Iterable[bytes], seen: Mapping[bytes, Signature | None]) -> set[bytes]:
    """Those of the changed `names` that are, to the nanosecond, the files that the index describes.

    A file as new as the index itself (a fresh clone is full of them) is compared by content, and git finds every
    converted one changed here, where it has no filter. git itself looks at whole seconds. Raises what `git` raises.
    """
    written = Path(own.index).stat().st_mtime_ns // _SECOND if Path(own.index).exists() else 0
    doubtful = {name: found for name in names if (found := seen.get(name)) and found[3] // _SECOND >= written}
    if not doubtful:
        return set()
    described = {match["name"]: match for match in _DESCRIBED.finditer(own.read("ls-files", "-z", "--debug"))}
    return {name for name, found in doubtful.items() if name in described and _is_same(described[name], found)}


def _is_same(described: re.Match[bytes], found: Signature) -> bool:
    _, inode, size, changed, altered = found
    mtime, ctime, ino, length = (described[field] for field in ("mtime", "ctime", "inode", "size"))
    # The index keeps 32 bits of each number.
    return (
        mtime == b"%d:%d" % divmod(changed, _SECOND)
        and ctime == b"%d:%d" % divmod(altered, _SECOND)
        and (int(ino), int(length)) == (inode & _WORD, size & _WORD)
    )


def _is_plain(listing: Listing, name: bytes) -> bool:
    entry = listing[name][0]
    return entry.stage == 0 and not entry.sparse and entry.mode != GITLINK


def _of_other_size(
    own: GitDir, names: list[bytes], listing: Listing, seen: Mapping[bytes, Signature | None]
) -> set[bytes]:
    """Those whose size is not that of the recorded object, or whose object is not here (a partial clone)."""
    ids = b"".join(listing[name][0].object_id + b"\n" for name in names)
    sizes = own.read("cat-file", "--batch-check=%(objectsize)", "--buffer", input=ids).splitlines()
    return {name for name, size in zip(names, sizes, strict=True) if size != b"%d" % size_of(seen[name])}


def _with_attributes(own: GitDir, names: list[bytes]) -> set[bytes]:
    lines = b"".join(name + b"\0" for name in names)
    told = own.read("check-attr", "-z", "--stdin", *_ATTRIBUTES, input=lines).split(b"\0")
    return {name for name, value in zip(told[::3], told[2::3], strict=False) if value not in _NOT_SET}
