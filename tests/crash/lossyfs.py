"""A file system that forgets what was not synced: a power cut for tests, over FUSE.

usage: lossyfs.py MOUNTPOINT DISK CUT. Each file is kept twice in memory: what programs see, and what would survive.
fsync and fdatasync make a file's bytes survive, fsync of a folder the names in it. The disk is the file DISK, read at
the start and written at the cut. CUT says when that is: `OPERATION:NAME:N` is before the Nth such operation on a file
whose name matches the pattern (`fsync:start.*:1`), `OPERATION:NAME:N:after` behind it, `-` on SIGUSR1 alone. At the cut
the process ends, and whoever still uses the files gets errors.

`LOSSY` in the environment names what the disk does beyond the promise: `strict` nothing, `journal` (as ext4 and xfs do)
keeps with a file that is synced the names that lead to it, `reorder` keeps besides the bytes of every other file
although nobody synced them. Needs mfusepy, /dev/fuse and root. For state folders of tests: hard links are copies of the
name, and rights are not enforced.
"""

from __future__ import annotations

import ctypes
import errno
import fnmatch
import os
import pickle
import signal
import stat
import sys
import time
from collections.abc import Callable
from typing import Any, NoReturn

from mfusepy import FUSE, FuseOSError, Operations


class Node:
    """A file or folder. `durable` is what of its bytes would survive."""

    def __init__(self, mode: int, *, durable: bytes = b"") -> None:
        self.mode = mode
        self.data = bytearray(durable)
        self.durable = durable
        self.links = 1
        self.changed = time.time_ns()


class Lossy(Operations):
    """Paths are those of FUSE: absolute below the mount point. One thread serves all."""

    use_ns = True

    def __init__(self, disk: str, cut: str, manner: str) -> None:
        self.disk, self.manner = disk, manner
        self.operation, self.pattern, self.number, self.side = _parse(cut)
        self.names: dict[str, Node] = {"/": Node(stat.S_IFDIR | 0o755)}
        if os.path.exists(disk):
            with open(disk, "rb") as file:
                kept = pickle.load(file)  # noqa: S301 (written by ourselves)
            self.names = {path: Node(mode, durable=data) for path, (mode, data) in kept.items()}
        self.kept = dict(self.names)
        signal.signal(signal.SIGUSR1, lambda *_: self.cut())
        if self.operation:
            setattr(self, self.operation, self._counted(getattr(self, self.operation)))

    def _counted(self, operation: Callable[..., Any]) -> Callable[..., Any]:
        def carry_out(path: str, *rest: Any) -> Any:
            self.number -= fnmatch.fnmatch(os.path.basename(path), self.pattern)
            if self.number == 0 and self.side == "before":
                self.cut()
            result = operation(path, *rest)
            if self.number == 0:
                self.cut()
            return result

        return carry_out

    def cut(self) -> NoReturn:
        """The power goes."""
        kept = {path: node for path, node in self.kept.items() if self._is_reachable(path)}
        image = {
            path: (node.mode, bytes(node.data) if self._survives(position) else node.durable)
            for position, (path, node) in enumerate(kept.items())
        }
        with open(self.disk + ".new", "wb") as file:
            pickle.dump(image, file)
        os.rename(self.disk + ".new", self.disk)
        os._exit(0)

    def _is_reachable(self, path: str) -> bool:
        return path == "/" or (os.path.dirname(path) in self.kept and self._is_reachable(os.path.dirname(path)))

    def _survives(self, position: int) -> bool:
        return self.manner == "reorder" and position % 2 == 1

    def node(self, path: str) -> Node:
        try:
            return self.names[path]
        except KeyError:
            raise FuseOSError(errno.ENOENT) from None

    def getattr(self, path: str, fh: Any = None) -> dict[str, Any]:
        node = self.node(path)
        times = dict.fromkeys(("st_mtime", "st_ctime", "st_atime"), node.changed)
        return {
            "st_mode": node.mode,
            "st_nlink": node.links,
            "st_size": len(node.data),
            "st_uid": 0,
            "st_gid": 0,
        } | times

    def readdir(self, path: str, fh: Any) -> list[str]:
        return [".", "..", *(os.path.basename(name) for name in self._inside(path))]

    def create(self, path: str, mode: int, fi: Any = None) -> int:
        self.names[path] = Node(stat.S_IFREG | stat.S_IMODE(mode))
        return 0

    def mknod(self, path: str, mode: int, dev: int) -> None:
        self.names[path] = Node(mode)

    def mkdir(self, path: str, mode: int) -> None:
        self.names[path] = Node(stat.S_IFDIR | stat.S_IMODE(mode))

    def open(self, path: str, flags: int) -> int:
        self.node(path)
        return 0

    def read(self, path: str, size: int, offset: int, fh: Any) -> bytes:
        return bytes(self.node(path).data[offset : offset + size])

    def write(self, path: str, data: bytes, offset: int, fh: Any) -> int:
        node = self.node(path)
        if offset > len(node.data):
            node.data.extend(bytes(offset - len(node.data)))
        node.data[offset : offset + len(data)] = data
        node.changed = time.time_ns()
        return len(data)

    def truncate(self, path: str, length: int, fh: Any = None) -> None:
        node = self.node(path)
        node.data = node.data[:length] + bytes(max(0, length - len(node.data)))

    def fallocate(self, path: str, mode: int, offset: int, length: int, fh: Any) -> None:
        if len(self.node(path).data) < offset + length:
            self.truncate(path, offset + length)

    def unlink(self, path: str) -> None:
        self.node(path).links -= 1
        del self.names[path]

    def rmdir(self, path: str) -> None:
        if self._inside(path):
            raise FuseOSError(errno.ENOTEMPTY)
        del self.names[path]

    def rename(self, old: str, new: str) -> None:
        moved = {path: node for path, node in self.names.items() if path == old or path.startswith(old + "/")}
        for path in moved:
            del self.names[path]
        self.names |= {new + path[len(old) :]: node for path, node in moved.items()}

    def link(self, target: str, source: str) -> None:
        if target in self.names:
            raise FuseOSError(errno.EEXIST)
        self.names[target] = self.node(source)
        self.node(source).links += 1

    def symlink(self, target: str, source: str) -> None:
        self.names[target] = Node(stat.S_IFLNK | 0o777, durable=source.encode())

    def readlink(self, path: str) -> str:
        return bytes(self.node(path).data).decode()

    def fsync(self, path: str, datasync: int, fh: Any) -> None:
        node = self.node(path)
        node.durable = bytes(node.data)
        if self.manner != "strict":
            while path != "/":
                self.kept[path] = self.names[path]
                path = os.path.dirname(path)

    def fsyncdir(self, path: str, datasync: int, fh: Any) -> None:
        gone = [name for name in self.kept if os.path.dirname(name) == path and name not in self.names]
        for name in gone:
            self.kept = {
                kept: node for kept, node in self.kept.items() if kept != name and not kept.startswith(name + "/")
            }
        self.kept |= {name: self.names[name] for name in self._inside(path)}
        if self.manner != "strict":
            while path != "/":
                self.kept[path] = self.names[path]
                path = os.path.dirname(path)

    def chmod(self, path: str, mode: int) -> None:
        node = self.node(path)
        node.mode = stat.S_IFMT(node.mode) | stat.S_IMODE(mode)

    def chown(self, path: str, uid: int, gid: int) -> None:
        pass

    def utimens(self, path: str, times: Any = None) -> None:
        pass

    def flush(self, path: str, fh: Any) -> None:
        pass

    def release(self, path: str, fh: Any) -> None:
        pass

    def statfs(self, path: str) -> dict[str, int]:
        return {
            "f_bsize": 4096,
            "f_frsize": 4096,
            "f_blocks": 1 << 20,
            "f_bfree": 1 << 20,
            "f_bavail": 1 << 20,
            "f_namemax": 255,
        }

    def _inside(self, path: str) -> list[str]:
        return [name for name in self.names if name != "/" and os.path.dirname(name) == path]


def _parse(cut: str) -> tuple[str, str, int, str]:
    if cut == "-":
        return "", "", 0, ""
    operation, pattern, number, *side = cut.split(":")
    return operation, pattern, int(number), side[0] if side else "before"


if __name__ == "__main__":
    # When the test dies, so does the mount.
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)
    served = Lossy(sys.argv[2], sys.argv[3], os.environ.get("LOSSY", "strict"))
    FUSE(served, sys.argv[1], foreground=True, nothreads=True, attr_timeout=0, entry_timeout=0, fsname="lossy")
