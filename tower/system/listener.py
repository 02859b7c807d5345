"""The control socket's place on disk: made, kept, and removed by the holder of the lock alone.

Owns the path, its modes and its stale remains. Who may speak over it is decided in `web`, per connection.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import grp
import os
import socket
import stat
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tower.core.errors import BusyError, InvalidError, TowerError
from tower.system.lock import StateLock

SUN_PATH_BYTES: Final = 107
"""Longest path that fits into `sockaddr_un` on Linux (108 bytes with the closing NUL)."""

BACKLOG: Final = 512
"""Connections that may wait to be accepted: a burst of `tower send` from a script, not more."""

LOCK_TRIES: Final = 20
LOCK_PAUSE_SEC: Final = 0.05
"""A tower that starts holds a folder for a few milliseconds; one whose state folder it is, for life."""

PRIVATE_FOLDER: Final = 0o700
GROUP_FOLDER: Final = 0o750
PRIVATE_SOCKET: Final = 0o600
GROUP_SOCKET: Final = 0o660


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """A listening socket and the path that leads to it."""

    socket: socket.socket
    path: Path
    identity: tuple[int, int]
    """Device and inode of the path when we made it: what else may stand there later is not ours to remove."""

    def close(self) -> None:
        """Stop listening, and remove the path unless it is another tower's by now."""
        with contextlib.suppress(OSError):
            if _identity(self.path.lstat()) == self.identity:
                self.path.unlink()
        self.socket.close()


def listen(path: Path, lock: StateLock, *, group: str | None = None) -> Listener:
    """Bind the control socket at `path` and listen; `lock` is the proof that this is the one tower here.

    The socket is 0600, and its folder 0700 where we make it; with `group`, 0660 and 0750. Remains of a tower that is
    gone are removed; a socket that somebody listens on, another kind of file, and a folder in which others may write
    are refused. Raises `InvalidError` and `BusyError`.
    """
    gid = None if group is None else _group_id(group)
    try:
        _prepare_folder(path.parent, gid)
        with _alone_in(path.parent, lock):
            _remove_remains(path)
            bound = _bind(path)
            try:
                if gid is not None:
                    _share(path, gid, GROUP_SOCKET)
                bound.listen(BACKLOG)
                return Listener(socket=bound, path=path, identity=_identity(path.lstat()))
            except (OSError, TowerError):
                bound.close()
                path.unlink()
                raise
    except OSError as error:
        raise _cannot(path, error) from error


def _prepare_folder(folder: Path, gid: int | None) -> None:
    folder.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
    found = folder.stat()
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) or found.st_uid not in (os.geteuid(), 0):
        raise InvalidError(
            "socket-folder",
            f"cannot put the control socket into {folder}: others may write there, and could put theirs in its place",
            "name a folder of the tower's own in [layover] socket",
        )
    if gid is not None and stat.S_IMODE(found.st_mode) in (PRIVATE_FOLDER, GROUP_FOLDER):
        _share(folder, gid, GROUP_FOLDER)


def _share(path: Path, gid: int, mode: int) -> None:
    try:
        os.chown(path, -1, gid)
    except PermissionError as error:
        raise InvalidError(
            "socket-group",
            f"cannot give {path} to group {gid}: the user that the tower runs as is not in it",
            "add it to the group (`usermod -aG`) and log in anew, or change [layover] socket_group",
        ) from error
    path.chmod(mode)


@contextlib.contextmanager
def _alone_in(folder: Path, lock: StateLock) -> Iterator[None]:
    """Keep other towers from the folder while the path changes hands.

    Our own lock settles that in our state folder; elsewhere towers of several state folders may meet at one path.
    """
    if lock.covers(folder):
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _lock_briefly(folder, descriptor)
        yield
    finally:
        os.close(descriptor)


def _lock_briefly(folder: Path, descriptor: int) -> None:
    for _ in range(LOCK_TRIES):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(LOCK_PAUSE_SEC)
        except OSError:
            return  # where folders cannot be locked there is only bind, which lets one in
        else:
            return
    raise BusyError(
        "socket-taken",
        f"cannot put the control socket into {folder}: it is the state folder of another tower",
        "name a folder of this tower's own in [layover] socket",
    )


def _remove_remains(path: Path) -> None:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise InvalidError(
            "socket-taken",
            f"cannot listen at {path}: something else than a socket is there",
            "move it away, or name another path in [layover] socket",
        )
    listener = _listening_at(path)
    if listener is not None:
        raise BusyError(
            "socket-taken",
            f"cannot listen at {path}: {listener} listens there",
            "name another path in [layover] socket, or stop that one",
        )
    path.unlink()


def _listening_at(path: Path) -> str | None:
    """Who listens, in words, or None when nobody can.

    The kernel answers, not the other process: a stopped or busy tower is as much there as a quick one.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe, _short_name(path) as name:
        probe.setblocking(False)
        try:
            probe.connect(name)
        except BlockingIOError:
            return "a process with a full backlog"
        except OSError as error:
            if error.errno == errno.ECONNREFUSED:
                return None
            raise
        pid, _, _ = struct.unpack("=iII", probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        return f"process {pid}" if pid > 0 else "a process of another container"


def _bind(path: Path) -> socket.socket:
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # The mode must be right from the first moment: between bind and chmod somebody could connect.
    before = os.umask(0o777 & ~PRIVATE_SOCKET)
    try:
        with _short_name(path) as name:
            bound.bind(name)
    except OSError:
        bound.close()
        raise
    finally:
        os.umask(before)
    return bound


@contextlib.contextmanager
def _short_name(path: Path) -> Iterator[str]:
    """A name of the path that fits into a socket address."""
    if len(os.fsencode(path)) <= SUN_PATH_BYTES:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def _group_id(group: str) -> int:
    try:
        return grp.getgrnam(group).gr_gid
    except KeyError:
        raise InvalidError(
            "socket-group",
            f"cannot give the control socket to the group {group!r}: there is no such group here",
            "make it (`groupadd`), or change [layover] socket_group",
        ) from None


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def _cannot(path: Path, error: OSError) -> TowerError:
    words = (error.strerror or str(error)).lower()
    hint = "name another path in [layover] socket; one in /run or $XDG_RUNTIME_DIR always works"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return BusyError("disk-full", f"cannot listen at {path}: {words}", "make room on that disk, then start again")
    if error.errno in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.ENXIO):
        words = f"its file system has no sockets, or forbids them ({words})"
    return InvalidError("socket", f"cannot listen at {path}: {words}", hint)
