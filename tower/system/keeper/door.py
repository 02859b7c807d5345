"""The keeper's socket: who may connect, and lines out and in that never make the keeper wait.

What a line means is left to `supervisor`.
"""

from __future__ import annotations

import _socket as socket
import os
import select

from tower.system import procfs
from tower.system.keeper.ancestry import AncestryError, run_above

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Final

MOST_PEERS: Final = 16
"""Connections at once; a run has one tower, and a person may look on."""

LONGEST_LINE: Final = 4096
"""Bytes; the longest word has some fifty."""

MOST_UNSENT: Final = 1 << 14
"""Bytes that may wait for a peer beyond what the kernel keeps for it; growth is not said to one that is behind."""

BACKLOG: Final = 8
READ: Final = select.POLLIN | select.POLLHUP


class Peer:
    """One connected tower."""

    __slots__ = ("_received", "socket", "unsent")

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self.socket = connection
        self.unsent = b""
        self._received = b""

    def send(self) -> bool:
        """Send what the kernel takes now; False when the peer is gone or too far behind."""
        try:
            while self.unsent:
                self.unsent = self.unsent[self.socket.send(self.unsent, socket.MSG_NOSIGNAL) :]
        except BlockingIOError:
            return len(self.unsent) <= MOST_UNSENT
        except OSError:
            return False
        return True

    def receive(self) -> list[str] | None:
        """The lines that have come; None at the end, or when it sends what is no line."""
        try:
            data = self.socket.recv(LONGEST_LINE)
        except BlockingIOError:
            return []
        except OSError:
            return None
        *lines, self._received = (self._received + data).split(b"\n")
        if not data or len(self._received) > LONGEST_LINE:
            return None
        return [line.decode("ascii", "replace") for line in lines]


class Door:
    """The listening socket and all peers. `hear` is called with each line, `greet` makes the first lines."""

    __slots__ = ("_folder", "_greet", "_hear", "_listener", "_name", "_poll", "_starved", "peers")

    def __init__(self, poll: select.poll, hear: Callable[[str], None], greet: Callable[[], str]) -> None:
        self._poll = poll
        self._hear = hear
        self._greet = greet
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._folder = -1
        self._name = b""
        self._starved = False
        self.peers: dict[int, Peer] = {}

    def listen(self, folder: bytes, name: bytes) -> None:
        """Bind `name` in `folder` by its bare name, so that no path is too long for a socket. Raises OSError."""
        self._folder = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:  # noqa: SIM105
            os.unlink(name, dir_fd=self._folder)  # left over from a power cut: `start` decides, not the socket
        except FileNotFoundError:
            pass
        os.fchdir(self._folder)
        mask = os.umask(0o177)
        try:
            self._listener.bind(name)
            self._name = name
        finally:
            os.umask(mask)
            os.chdir("/")
        self._listener.listen(BACKLOG)
        self._listener.setblocking(False)
        self._poll.register(self._listener.fileno(), select.POLLIN)

    def admit(self, connection: socket.socket) -> Peer:
        """Take a connection as that of a tower."""
        fd = connection.fileno()
        self.peers[fd] = Peer(connection)
        self._poll.register(fd, READ)
        return self.peers[fd]

    def serve(self, fd: int, events: int) -> bool:
        """Answer a poll event; False when it is not for the door."""
        if fd == self._listener.fileno():
            self._accept()
            return True
        peer = self.peers.get(fd)
        if peer is None:
            return False
        if events & select.POLLOUT and not self._flush(fd, peer):
            return True
        if events & ~select.POLLOUT:
            lines = peer.receive()
            if lines is None:
                self._drop(fd, peer)
            for line in lines or ():
                self._hear(line)
        return True

    def say(self, line: str, *, droppable: bool = False) -> None:
        """A line to every peer; a droppable one is not for those that still have something to read."""
        for fd, peer in list(self.peers.items()):
            if not (droppable and peer.unsent):
                peer.unsent += line.encode("ascii", "backslashreplace") + b"\n"
                self._flush(fd, peer)

    def retry(self) -> None:
        """Listen again after descriptors had run out; called once a tick."""
        if self._starved:
            self._starved = False
            self._poll.register(self._listener.fileno(), select.POLLIN)

    def close(self) -> None:
        """Take the name away and part from all peers."""
        if self._name:
            try:  # noqa: SIM105
                os.unlink(self._name, dir_fd=self._folder)
            except OSError:
                pass
        self._listener.close()
        for peer in self.peers.values():
            peer.socket.close()
        self.peers.clear()

    def _accept(self) -> None:
        try:
            fd, _ = self._listener._accept()  # type: ignore[attr-defined]  # all that `_socket` has
        except BlockingIOError:
            return
        except OSError:
            # No descriptor, no memory, or a peer that has gone. A ready listener would be reported at once again.
            self._poll.unregister(self._listener.fileno())
            self._starved = True
            return
        connection = socket.socket(fileno=fd)
        if len(self.peers) >= MOST_PEERS or not self._is_trusted(connection):
            connection.close()
            return
        peer = self.admit(connection)
        peer.unsent = self._greet().encode("ascii")
        self._flush(fd, peer)

    def _is_trusted(self, connection: socket.socket) -> bool:
        """Whether the peer is of this user or root, and no process of any run of this state folder."""
        pid, uid, _ = procfs.peer_credentials(connection)
        try:
            return uid in (os.geteuid(), 0) and run_above(pid, self._folder) is None
        except (AncestryError, OSError):
            return False

    def _flush(self, fd: int, peer: Peer) -> bool:
        if not peer.send():
            self._drop(fd, peer)
            return False
        self._poll.modify(fd, READ | select.POLLOUT if peer.unsent else READ)
        return True

    def _drop(self, fd: int, peer: Peer) -> None:
        self._poll.unregister(fd)
        peer.socket.close()
        del self.peers[fd]
