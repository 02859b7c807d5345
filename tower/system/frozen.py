"""Frozen trees: what a live tree held at one moment, laid out once per content and read by every run that needs it.

They lie in a folder of the tower's own, each under a name made of all that decides its content. Making one is
crash-safe (another name, then a rename); what is idle is dropped when there are too many, what is in use never.
A run's own layer over one is not made here.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Final

from tower.core.errors import TowerError
from tower.core.launch import Workspace
from tower.system import procfs
from tower.system.gitdir import PRIVATE
from tower.system.layout import LAID, Layout
from tower.system.repository import Repository, find_repository
from tower.system.snapshot import folder_for, not_made, workspace

TREE: Final = "tree"
MADE: Final = "frozen.json"
"""Written last: without it a folder is no frozen tree."""

NEW: Final = ".new-"
GONE: Final = ".gone-"

FORMAT: Final = "1"
"""Part of every name: a tower that lays out otherwise does not take these for its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frozen:
    """One frozen tree, held for a run."""

    key: str
    tree: str
    """The folder with its files."""
    workspace: Workspace
    """The same as a place to work in, which nobody may write."""
    how: str
    """found, refreshed or made."""


@dataclass(slots=True)
class FrozenTrees:
    """The frozen trees of one tower. Every call blocks: make it in a worker thread; several may at once."""

    cache: Path
    remove: Callable[[str], str | None]
    """Deletes a folder; says what could not be deleted."""
    _held: dict[str, str] = field(default_factory=dict)
    """Run -> the name of the tree that it reads."""
    _making: set[str] = field(default_factory=set)
    _lock: Lock = field(default_factory=Lock)

    def hold(self, run: str, key: str) -> None:
        """Say that a run reads a tree, as is known of one of an earlier tower."""
        with self._lock:
            self._held[run] = key

    def let_go(self, run: str) -> None:
        """The run is over."""
        with self._lock:
            self._held.pop(run, None)

    def take(self, run: str, *, live: str, head_only: bool, include: Sequence[str], exclude: Sequence[str]) -> Frozen:
        """The frozen tree of what `live` holds now, or its HEAD, held for `run`.

        Raises what `take_snapshot` raises; then nothing is held.
        """
        repository = find_repository(live)
        fresh = self.cache / f"{NEW}{secrets.token_hex(8)}"
        self._making.add(fresh.name)
        try:
            self.cache.mkdir(mode=PRIVATE, exist_ok=True)
            fresh.mkdir(mode=PRIVATE)
            return self._take(run, repository, Path(os.path.realpath(live)), fresh, include, exclude, head_only)
        except OSError as error:
            raise not_made(str(fresh), error) from error
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
            self._making.discard(fresh.name)

    def drop_idle(self, most: int) -> tuple[str, ...]:
        """Drop the longest unused trees beyond `most`, never one that is held; says what could not be deleted."""
        told = []
        while True:
            with self._lock:
                there = sorted(self._whole(), key=_used)
                idle = [place for place in there if not self._is_held(place)]
                if not idle or len(there) <= most:
                    break
                gone = _aside(idle[0])
            told.append(self.remove(str(gone)))
        return tuple(words for words in told if words is not None)

    def sweep(self) -> tuple[str, ...]:
        """Drop what a crash left half made, and all of before the machine's last start, as what was not synced may be
        missing; says what could not be deleted."""
        told = []
        for place in self._places():
            with self._lock:
                if self._is_held(place) or place.name in self._making or _read(place) is not None:
                    continue
                gone = place if place.name.startswith(GONE) else _aside(place)
            told.append(self.remove(str(gone)))
        return tuple(words for words in told if words is not None)

    def _take(
        self,
        run: str,
        repository: Repository,
        live: Path,
        fresh: Path,
        include: Sequence[str],
        exclude: Sequence[str],
        head_only: bool,
    ) -> Frozen:
        layout = Layout(fresh, include=include, exclude=(*exclude, str(self.cache)))
        part = layout.read(repository, head_only=head_only)
        key = _name(layout, head_only=head_only)
        home = self.cache / key
        layout.stand_in(home)
        how = "found"
        if not self._find(run, home):
            how = self._lay_out(layout, fresh)
            layout.done()
            known = {"boot": procfs.boot_id(), "top": repository.top, "single": len(layout.parts) == 1}
            (fresh / MADE).write_text(json.dumps(known))
            self._settle(run, fresh, home)
        try:
            path = folder_for(home / TREE, live, repository, head_only=head_only)
        except TowerError:
            self.let_go(run)
            raise
        return Frozen(key=key, tree=str(home / TREE), workspace=workspace(path, live, part, layout.notes), how=how)

    def _find(self, run: str, place: Path) -> bool:
        """Hold the tree that is there; False when there is none."""
        with self._lock:
            if _read(place) is None:
                return False
            self._held[run] = place.name
            os.utime(place)
            return True

    def _lay_out(self, layout: Layout, fresh: Path) -> str:
        """Into `fresh`: from the nearest idle tree, if there is one, since most files are in place there already."""
        nearest = self._nearest(layout)
        if nearest is None:
            layout.lay_out(fresh / TREE)
            return "made"
        try:
            (nearest / TREE).rename(fresh / TREE)
            shutil.rmtree(fresh / TREE / ".git")
            layout.lay_out(fresh / TREE, nearest / LAID)
        finally:
            self.remove(str(nearest))
        return "refreshed"

    def _nearest(self, layout: Layout) -> Path | None:
        """The idle tree of the same repository that was used last; nobody else finds it from now on."""
        if len(layout.parts) != 1:
            return None
        with self._lock:
            known = [(place, _read(place) or {}) for place in self._whole() if not self._is_held(place)]
            alike = [
                place
                for place, made in known
                if made.get("single") and made.get("top") == layout.parts[0].repository.top and (place / LAID).exists()
            ]
            return _aside(max(alike, key=_used)) if alike else None

    def _settle(self, run: str, fresh: Path, home: Path) -> None:
        """Give a whole tree its name, unless another run was faster."""
        with self._lock:
            try:
                fresh.rename(home)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST) or _read(home) is None:
                    raise
            self._held[run] = home.name

    def _is_held(self, place: Path) -> bool:
        return place.name in self._held.values()

    def _whole(self) -> list[Path]:
        return [place for place in self._places() if not place.name.startswith(".") and _read(place) is not None]

    def _places(self) -> list[Path]:
        try:
            return list(self.cache.iterdir())
        except FileNotFoundError:
            return []


def _name(layout: Layout, *, head_only: bool) -> str:
    """All that decides the content, as one name; and the start of the machine, see `_read`."""
    digest = hashlib.sha256(f"{FORMAT} {head_only} {procfs.boot_id()}".encode())
    for part in layout.parts:
        for piece in part.describe():
            digest.update(len(piece).to_bytes(8, "big") + piece)
    return digest.hexdigest()[:32]


def _read(place: Path) -> dict[str, object] | None:
    """What is known of a frozen tree; None when it is not whole, or of before the machine's last start."""
    try:
        known = json.loads((place / MADE).read_text())
    except (OSError, ValueError):
        return None
    is_ours = isinstance(known, dict) and known.get("boot") == procfs.boot_id()
    return known if is_ours else None


def _used(place: Path) -> float:
    try:
        return place.stat().st_mtime
    except OSError:
        return 0.0


def _aside(place: Path) -> Path:
    gone = place.with_name(f"{GONE}{place.name.lstrip('.')}-{secrets.token_hex(4)}")
    place.rename(gone)
    return gone
