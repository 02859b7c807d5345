"""The state folder: where everything that must survive the tower lies, and how it is made fit for use.

Owns the names in it. Who may use it at a time is `lock`'s, what the files hold is each owner's.
"""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tower.core.errors import BusyError, InvalidError, TowerError
from tower.system.files import sync_folder

PRIVATE: Final = 0o700
"""Mode of every folder here: bodies, logs and memory are nobody else's business."""


DOOR: Final = "runs.sock"
"""In `StateDir.door`."""


@dataclass(frozen=True, slots=True)
class StateDir:
    """The paths of one state folder. `root` is absolute."""

    root: Path

    @property
    def database(self) -> Path:
        return self.root / "tower.db"

    @property
    def lock(self) -> Path:
        """The folder itself: a lock on it cannot be taken away by removing a file."""
        return self.root

    @property
    def socket(self) -> Path:
        """Where the control socket lies unless the configuration names another place."""
        return self.root / "tower.sock"

    @property
    def socket_path_file(self) -> Path:
        """One line: where the control socket really is, for clients that know only the state folder."""
        return self.root / "socket.path"

    @property
    def http_port(self) -> Path:
        """One line: the TCP port that was free once, to be taken again at each start."""
        return self.root / "http.port"

    @property
    def keepers(self) -> Path:
        """The keepers' sockets. One letter, since 107 bytes are all that a socket's path may have."""
        return self.root / "k"

    @property
    def hangars(self) -> Path:
        return self.root / "hangars"

    @property
    def snapshots(self) -> Path:
        return self.root / "snapshots"

    @property
    def door(self) -> Path:
        """The folder of the socket for runs, all that a sandbox leaves of the way to the tower."""
        return self.root / "door"

    @property
    def worktrees(self) -> Path:
        """Work trees of chains."""
        return self.root / "worktrees"

    @property
    def trees(self) -> Path:
        """What writers' runs found and left, so that it can be shown later."""
        return self.root / "trees"

    @property
    def ballast(self) -> Path:
        return self.root / "ballast"

    @property
    def ground_stop(self) -> Path:
        """The kill switch: engaged while this file exists."""
        return self.root / "ground-stop"

    @property
    def drain(self) -> Path:
        """Nothing is started while this file exists."""
        return self.root / "drain"

    def hangar(self, agent: str) -> Path:
        """An agent's own folder: its memory and one folder per run."""
        return self.hangars / agent

    def run_folder(self, agent: str, run: str) -> Path:
        return self.hangars / agent / run


def prepare(root: Path) -> StateDir:
    """Make the state folder and its parts, private to this user, and return its paths.

    Raises `InvalidError` when it is no folder, belongs to somebody else or cannot be written, and `BusyError` when
    the disk has no room for it.
    """
    state = StateDir(root.absolute())
    try:
        for folder in (state.root, state.keepers, state.door, state.hangars, state.snapshots):
            _make_private(folder)
        if not os.access(state.root, os.W_OK | os.X_OK):
            raise PermissionError(errno.EROFS, "it is not writable")
        _keep_out_of_git(state.root / ".gitignore")
    except OSError as error:
        raise _unusable(state.root, error) from error
    return state


def _make_private(folder: Path) -> None:
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    folder.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
    for place in missing:
        # What is acknowledged later is only as safe as the names that lead to it.
        sync_folder(place.parent)
    found = folder.stat()
    if found.st_uid != os.geteuid():
        raise InvalidError(
            "state-dir",
            f"cannot keep state in {folder}: it belongs to uid {found.st_uid}, and the tower runs as {os.geteuid()}",
            "name a folder of the tower's own in [layover] state_dir; one inside this folder will do",
        )
    if stat.S_IMODE(found.st_mode) != PRIVATE:
        folder.chmod(PRIVATE)


def _keep_out_of_git(path: Path) -> None:
    """A factory often lives in the repository that its agents work in; `git add -A` must not meet our files."""
    if not path.exists():
        path.write_text("*\n")


def _unusable(root: Path, error: OSError) -> TowerError:
    words = (error.strerror or str(error)).lower()
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return BusyError(
            "disk-full", f"cannot keep state in {root}: {words}", "make room on that disk, then start again"
        )
    return InvalidError(
        "state-dir",
        f"cannot keep state in {root}: {words}",
        "name a folder that this user can write in [layover] state_dir",
    )
