"""Captures what a live tree holds at one moment: HEAD, uncommitted, untracked and included files.

A private copy of the index is brought to the state of the disk, until a last look finds nothing to do and HEAD and
the live index have not moved meanwhile: then all of it existed at once. New objects go to a private folder. Where the
result is laid out is `snapshot`'s.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tower.core.errors import BusyError, TowerError
from tower.system.conversions import converted, untouched
from tower.system.differences import Differences, differences
from tower.system.git import PATIENT, shown
from tower.system.gitdir import AS_IT_STANDS, GitDir, copy_index, copy_info, index_stamp
from tower.system.listing import GITLINK, Listing, folders_of, parse_listing, read_listing
from tower.system.livetree import Kind, LiveTree, Signature
from tower.system.patterns import check_patterns, literal
from tower.system.repository import Head, Repository, check_index, read_head
from tower.system.sparse import unfold

CALM_WITHIN: Final = 30.0
"""Seconds that a tree has to hold still for the length of two looks (tens of milliseconds with 10,000 files)."""

ROUNDS: Final = 5
"""Looks at one copy of the index, before everything is begun anew."""

_PAUSES: Final = (0.01, 0.02, 0.05, 0.1, 0.2)
"""Seconds between attempts; the last one is repeated."""

_FAILURES: Final = 3
"""Failures of git in a row that may be due to such a change."""

_NAMED: Final = 5
"""File names that a message lists before it counts the rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capture:
    """The state of one live tree, named, with its new contents in the private object folder."""

    tree: str
    """Git tree id of the content; nested repositories are in `inner`, each with a state of its own."""
    head: Head
    listing: Listing
    """The live index: what was staged, conflicts included."""
    staged: str
    """Names the state of that index."""
    intended: frozenset[bytes]
    """Files marked with `git add --intent-to-add`."""
    clean: frozenset[bytes]
    """Files that differ in bytes from what is recorded and are unchanged all the same: a filter stands between."""
    inner: tuple[bytes, ...]
    """Folders with a repository of their own: submodules, and others."""
    notes: tuple[str, ...]


def capture(
    repository: Repository,
    own: GitDir,
    *,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    calm_within: float | None = None,
) -> Capture:
    """Bring the index of `own` to what `repository`'s work tree holds, and name it.

    `include` are patterns as in a .gitignore, of ignored files that belong to it all the same; `exclude` are absolute
    paths that do not. Raises `BusyError` (tree-moving) when the tree did not hold still within `calm_within` seconds
    (`CALM_WITHIN` unless given),
    `InvalidError` for a repository that cannot be read, and what `git` raises.
    """
    check_patterns(include)
    patience = CALM_WITHIN if calm_within is None else calm_within
    deadline = time.monotonic() + patience
    attempt = 0
    while True:
        reading = _Reading(repository, own, include, LiveTree(repository.top, exclude))
        try:
            return reading.whole()
        except _MovedError as moved:
            if time.monotonic() > deadline:
                raise _restless(repository, moved, patience) from moved
        except TowerError as error:
            # Two files of the repository may have been read on either side of a change.
            if error.code != "git-failed" or attempt >= _FAILURES:
                raise
        time.sleep(_PAUSES[min(attempt, len(_PAUSES) - 1)])
        attempt += 1


class _MovedError(Exception):
    """The tree is not what it was when the attempt began."""


class _Reading:
    """One attempt: a copy of the index, and what is done to it."""

    def __init__(self, repository: Repository, own: GitDir, include: Sequence[str], disk: LiveTree) -> None:
        self._repository = repository
        self._own = own
        self._include = include
        self._disk = disk
        self._matched: set[str] = set()
        self._recorded: dict[bytes, Signature] = {}
        self._dropped: set[bytes] = set()
        self._left_out: dict[bytes, str] = {}
        self._failure: TowerError | None = None

    def whole(self) -> Capture:
        """Everything, or `_MovedError`."""
        own = self._own
        copy_info(self._repository, own.path)
        self._exclude()
        stamp = copy_index(self._repository, own)
        head = read_head(self._repository)
        check_index(self._repository, head)
        unfold(self._repository, own)
        told = read_listing(own)
        listing = parse_listing(told, own.work_tree)
        self._trust_no_marks(listing)
        attributes = self._survey(folders_of(listing))
        inner = self._gitlinks(listing)
        seen = {name: self._disk.signature(name) for name in listing}
        first = self._look()
        for name in untouched(own, (name for name, letter in first.changed.items() if letter == b"M"), seen):
            del first.changed[name]
        self._survey(folders_of(first.untracked))
        other_bytes = converted(own, listing.keys() - first.changed.keys(), listing, seen, attributes=attributes)
        own.set_info("attributes", AS_IT_STANDS)
        last = self._settle(first, other_bytes)
        if index_stamp(self._repository) != stamp or read_head(self._repository) != head:
            raise _MovedError("HEAD or the index moved")
        return Capture(
            tree=own.write("write-tree", "--missing-ok").strip().decode(),
            head=head,
            listing=listing,
            staged=hashlib.sha256(told).hexdigest(),
            intended=frozenset(name for name, letter in first.changed.items() if letter == b"A"),
            clean=frozenset(name for name in other_bytes if self._recorded.get(name, ()) == seen[name]),
            inner=tuple(sorted(inner | last.inner)),
            notes=self._notes(),
        )

    def _exclude(self) -> None:
        """Keep git from walking through what does not belong to the tree."""
        if self._disk.excluded:
            rules = b"".join(b"/" + literal(name) + b"\n" for name in self._disk.excluded)
            self._own.add_info("exclude", rules)

    def _trust_no_marks(self, listing: Listing) -> None:
        """Take back the marks by which a user or an agent told git not to look at a file."""
        assumed = [name for name, entries in listing.items() if any(entry.assumed for entry in entries)]
        if assumed:
            self._own.read("update-index", "--no-assume-unchanged", "-z", "--stdin", input=_lines(assumed))

    def _survey(self, folders: Iterable[bytes]) -> bool:
        found = self._disk.survey(folders)
        self._left_out.update(found.special)
        return found.attributes

    def _gitlinks(self, listing: Listing) -> set[bytes]:
        """Submodules that are filled; one that is a plain folder or a file now stops being one in the own index."""
        filled, plain = set(), []
        for name, entries in listing.items():
            if entries[0].mode != GITLINK:
                continue
            inside = self._disk.names_in(name)
            if inside is not None and b".git" in inside:
                if not self._disk.is_excluded(name):
                    filled.add(name)
            elif inside is None or inside:
                plain.append(name)
        self._drop(plain)
        return filled

    def _look(self) -> Differences:
        found = differences(self._own, self._disk, self._include)
        self._matched |= found.matched
        return found

    def _settle(self, first: Differences, other_bytes: set[bytes]) -> Differences:
        """Record what differs until nothing does."""
        found, unread = first, set(other_bytes)
        # Taken out of the index, so that git reads them; one that is ignored as well would be seen by no later look.
        self._drop(unread)
        for _ in range(ROUNDS):
            add, drop = self._decide(found, unread)
            if found is not first and not add and not drop:
                self._check_recorded()
                return found
            if self._record(add, drop):
                unread = set()
            found = self._look()
        if self._failure is not None:
            raise _MovedError(str(self._failure))
        raise _MovedError(f"it keeps changing: {_some(sorted(add.keys() | drop))}")

    def _decide(self, found: Differences, unread: set[bytes]) -> tuple[dict[bytes, Signature], set[bytes]]:
        """What to record anew, with what it looked like, and what to take out of the own index."""
        add: dict[bytes, Signature] = {}
        drop: set[bytes] = set()
        for name in found.changed.keys() | found.untracked | found.included | unread:
            now = self._disk.look(name)
            why = now.why
            if name in found.included and now.kind is Kind.LINK and self._disk.leads_out(name):
                why = "included links that lead out of the tree"
            elif now.kind in (Kind.FILE, Kind.LINK):
                if name in found.changed or self._recorded.get(name) != now.signature:
                    add[name] = now.signature
                    continue
                # It was given to git as it is now, and is still unknown to it.
                why = "files with names that git does not keep"
            if why is not None:
                self._left_out[name] = why
            if name in found.changed:
                drop.add(name)
        return add, drop

    def _record(self, add: Mapping[bytes, Signature], drop: set[bytes]) -> bool:
        """Bring the own index to what was decided; False when git met a file that went or changed meanwhile.

        Then the next look tells; if none does, its words are the last ones.
        """
        self._failure = None
        try:
            self._drop(drop)
            self._dropped |= drop
            if add:
                options = ("--add", "--remove", "--replace", "-z", "--stdin")
                self._own.write("update-index", *options, input=_lines(add), timeout=PATIENT)
        except TowerError as error:
            if error.code != "git-failed":
                raise
            self._failure = error
            return False
        self._recorded.update(add)
        return True

    def _check_recorded(self) -> None:
        """What was read is still as it was, and what was gone still is.

        git looks at seconds where the disk knows nanoseconds, and not at all at ignored files outside its index.
        """
        self._disk.forget()
        moved = [name for name, seen in self._recorded.items() if self._disk.look(name).signature != seen]
        gone = self._dropped - self._recorded.keys()
        moved += [name for name in gone if self._disk.look(name).kind in (Kind.FILE, Kind.LINK)]
        if moved:
            raise _MovedError(f"it changed while it was read: {_some(moved)}")

    def _drop(self, names: Iterable[bytes]) -> None:
        gone = b"".join(b"0 %s\t%s\0" % (self._own.null_id, name) for name in names)
        if gone:
            self._own.read("update-index", "-z", "--index-info", input=gone)

    def _notes(self) -> tuple[str, ...]:
        reasons: dict[str, list[bytes]] = {}
        for name, why in sorted(self._left_out.items()):
            reasons.setdefault(why, []).append(name)
        absent = [pattern for pattern in self._include if pattern not in self._matched]
        return (
            *(f"left out of the snapshot, {why}: {_some(names)}" for why, names in reasons.items()),
            *(f"nothing in the tree matches {shown(pattern)} of snapshot_include" for pattern in absent),
        )


def _restless(repository: Repository, moved: _MovedError, seconds: float) -> BusyError:
    return BusyError(
        "tree-moving",
        f"cannot take a snapshot of {shown(repository.top)}: it did not hold still for {seconds:g} s; {moved}",
        "wait until the work there is done, or name what is written all the time (a log, say) in .gitignore",
    )


def _lines(names: Iterable[bytes]) -> bytes:
    return b"".join(name + b"\0" for name in names)


def _some(names: Sequence[bytes]) -> str:
    listed = ", ".join(shown(name) for name in names[:_NAMED])
    more = len(names) - _NAMED
    return f"{listed} and {more} more" if more > 0 else listed
