"""Contents of git LFS that are on this machine already, put in the place of their pointers in a new work tree.

The filter of LFS is not run, for an agent can write the configuration that names it. What is not here stays a pointer.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import struct
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from tower.system.files import copy_content, read_regular
from tower.system.gitdir import GitDir
from tower.system.repository import Repository

_POINTER: Final = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\noid sha256:(?P<id>[0-9a-f]{64})\nsize (?P<size>[0-9]{1,15})\n"
)
"""As https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md has it. One with extensions needs their programs."""

_SMALL: Final = 1024
"""Bytes: no pointer is larger, by the same text."""

_OLDER: Final = 10
"""Seconds by which a file is made older than the index: one as new as that would be compared by content."""

_WORD: Final = 0xFFFFFFFF


def fill_in(own: GitDir, names: Iterable[bytes], repository: Repository) -> tuple[bytes, ...]:
    """Replace pointers among the files `names` of the tree of `own`, and have its index take that for no change.

    Contents come from where `repository` keeps those of LFS, or from its work tree. Returns those that are not there.
    Raises `OSError`.
    """
    filled, missing = {}, []
    for name in names:
        place = Path(own.work_tree, os.fsdecode(name))
        pointer = _POINTER.fullmatch(read_regular(place, _SMALL) or b"")
        if pointer is None:
            continue  # the content itself was committed
        if _fill(place, name, pointer, repository, Path(own.path, "content")):
            filled[name] = place.lstat()
        else:
            missing.append(name)
    if filled:
        _record(own, filled)
    return tuple(missing)


def _fill(place: Path, name: bytes, pointer: re.Match[bytes], repository: Repository, fresh: Path) -> bool:
    identity, size = pointer["id"].decode(), int(pointer["size"])
    kept = Path(repository.common_dir or repository.top, "lfs/objects", identity[:2], identity[2:4], identity)
    for source, is_named_by_content in ((kept, True), (Path(repository.top, os.fsdecode(name)), False)):
        descriptor = _open(source, size)
        if descriptor is None:
            continue
        with os.fdopen(descriptor, "rb") as file:
            if not is_named_by_content and hashlib.file_digest(file, "sha256").hexdigest() != identity:
                continue
            file.seek(0)
            with fresh.open("wb") as target:
                if copy_content(descriptor, target.fileno()) != size:
                    continue  # somebody is at work on it
        fresh.chmod(stat.S_IMODE(place.lstat().st_mode))
        before = time.time() - _OLDER
        os.utime(fresh, (before, before))
        fresh.rename(place)
        return True
    return False


def _open(path: Path, size: int) -> int | None:
    """A descriptor of the file of that size at `path`; None when there is none, or a link is on the way to it."""
    if os.path.realpath(path) != str(path):
        return None
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_size != size:
        os.close(descriptor)
        return None
    return descriptor


def _record(own: GitDir, files: Mapping[bytes, os.stat_result]) -> None:
    """Write into the index how these files look now. No git command does that without the filter.

    The format is that of gitformat-index(5); git writes no other version than these two here.
    """
    path, form = Path(own.index), own.object_format
    data = bytearray(path.read_bytes())
    width = hashlib.new(form).digest_size
    version, count = struct.unpack_from(">4xII", data)
    if version not in (2, 3):
        return
    offset = 12
    for _ in range(count):
        (flags,) = struct.unpack_from(">H", data, offset + 40 + width)
        head = 42 + width + (2 if flags & 0x4000 else 0)
        end = data.index(b"\0", offset + head)
        seen = files.get(bytes(data[offset + head : end]))
        if seen is not None:
            times = (*divmod(seen.st_ctime_ns, 10**9), *divmod(seen.st_mtime_ns, 10**9))
            place = (seen.st_dev & _WORD, seen.st_ino & _WORD)
            struct.pack_into(">6I", data, offset, *times, *place)
            struct.pack_into(">3I", data, offset + 28, seen.st_uid, seen.st_gid, seen.st_size & _WORD)
        offset += (end - offset + 8) & ~7
    data[-width:] = hashlib.new(form, data[:-width]).digest()
    path.write_bytes(data)
