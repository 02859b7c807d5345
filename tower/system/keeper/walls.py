"""What a child does before it becomes the program, so that the kernel holds it: an overlay mounted, Landlock applied.

The kernel is asked through the C library without `ctypes`, which would add 3 ms to each start. Which walls a run gets
is decided by the tower; bubblewrap builds its own, and here only what is mounted before it.
"""

from __future__ import annotations

import _ctypes
import os
import stat
import struct

from tower.system.prctl import allow_own_proc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    from tower.system.keeper.protocol import WallsPlan

CLONE_NEWNS: Final = 0x00020000
CLONE_NEWUSER: Final = 0x10000000
MS_REC_PRIVATE: Final = 0x4000 | 0x40000
"""Numbers of `linux/sched.h` and `linux/mount.h`."""

LANDLOCK_CREATE_RULESET: Final = 444
LANDLOCK_ADD_RULE: Final = 445
LANDLOCK_RESTRICT_SELF: Final = 446
"""Numbers of the system calls, the same on every machine."""

LANDLOCK_CREATE_RULESET_VERSION: Final = 1
RULE_PATH_BENEATH: Final = 1

WRITE_FILE: Final = 1 << 1
TRUNCATE: Final = 1 << 14
ON_FILES: Final = WRITE_FILE | TRUNCATE
WRITES: Final = ON_FILES | sum(1 << bit for bit in range(4, 14))
"""Every right of ABI 3 that changes something: writing, making, removing and renaming, of whatever kind."""


class WallsError(OSError):
    """The kernel refused a wall: the program must not be started without it."""


def put_up(walls: WallsPlan) -> None:
    """Raise what the plan wants around this process, for good. Raises `OSError`."""
    if walls["overlay"]:
        _mount_overlay(*walls["overlay"])
    if walls["landlock"] is not None:
        _apply_landlock(walls["landlock"])


def landlock_abi() -> int:
    """The kernel's version of Landlock; 0 where there is none."""
    try:
        return _call("syscall", LANDLOCK_CREATE_RULESET, None, 0, LANDLOCK_CREATE_RULESET_VERSION)
    except OSError:
        return 0


def _mount_overlay(lower: bytes, upper: bytes, work: bytes, at: bytes) -> None:
    """In a user and mount namespace of its own, where this user is who it was."""
    uid, gid = os.geteuid(), os.getegid()
    allow_own_proc()
    _call("unshare", CLONE_NEWUSER | CLONE_NEWNS)
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        fd = os.open(f"/proc/self/{name}", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(fd, text.encode())
        finally:
            os.close(fd)
    _call("mount", b"none", b"/", None, MS_REC_PRIVATE, None)
    parts = b",".join(
        name + b"=" + _escaped(path) for name, path in ((b"lowerdir", lower), (b"upperdir", upper), (b"workdir", work))
    )
    _call("mount", b"overlay", at, b"overlay", 0, parts + b",userxattr")


def _escaped(path: bytes) -> bytes:
    """A path as the options of an overlay hold it."""
    return path.replace(b"\\", b"\\\\").replace(b":", b"\\:").replace(b",", b"\\,")


def _apply_landlock(writable: list[bytes]) -> None:
    attributes = struct.pack("=Q", WRITES)
    ruleset = _call("syscall", LANDLOCK_CREATE_RULESET, attributes, len(attributes), 0)
    try:
        for path in writable:
            try:
                fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
            except FileNotFoundError:
                continue
            try:
                rights = WRITES if stat.S_ISDIR(os.fstat(fd).st_mode) else ON_FILES
                rule = struct.pack("=Qi", rights, fd)
                _call("syscall", LANDLOCK_ADD_RULE, ruleset, RULE_PATH_BENEATH, rule, 0)
            finally:
                os.close(fd)
        _call("syscall", LANDLOCK_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def _call(name: str, *arguments: int | bytes | None) -> int:
    address = _ctypes.dlsym(_ctypes.dlopen(None, 0), name)  # type: ignore[arg-type]  # None: what is loaded
    result = int(_ctypes.call_function(address, arguments))
    if result < 0:
        raise WallsError(f"{name} was refused")
    return result
