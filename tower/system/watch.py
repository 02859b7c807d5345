"""Watching the folders of the configuration: something changed there, and has settled.

Folders and not files, since editors and config maps replace files by renaming; what changed, if anything, is found
out by the caller, who compares content. Owns the watches, what happens when the system grants none, and folders that
go away and come back.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
from watchfiles import watch
from watchfiles.main import FileChange

QUIET_MS: Final = 100
"""A change has settled when nothing followed it for so long. Longer means fewer wake-ups of an idle watch."""

SETTLE_MS: Final = 1600
"""A folder in which something is written all the time is looked at this often nevertheless."""

LOOK_MS: Final = 1000
"""How often it is checked that the watched folders are still the ones that their paths lead to."""

POLL_SEC: Final = 1.0
"""How often the folders are listed when the system grants no watch."""

RETRY_POLLS: Final = 60
"""After so many listings a watch is asked for again."""

LINKS: Final = 40
"""Symbolic links followed on one path, as many as the kernel follows."""

Folders = Callable[[], frozenset[Path]]
Identity = tuple[int, int]


async def changes(
    folders: Folders, *, report: Callable[[str | None], None] = lambda _: None
) -> AsyncGenerator[None, None]:
    """Yield after each change in one of `folders()`, for ever, and once when the watch first stands.

    `folders` is asked anew about every second, so it may change its answer. `report` gets a sentence when the
    system grants no watch and the folders are listed every second instead, and None when it does again.
    """
    polling = False
    while True:
        try:
            async with aclosing(_notified(folders)) as news:
                async for _ in news:
                    if polling:
                        polling = False
                        report(None)
                    yield
        except (OSError, RuntimeError) as error:  # watchfiles wraps some of the system's errors into RuntimeError
            if not polling:
                polling = True
                report(_sentence(error))
            async with aclosing(_polled(folders)) as news:
                async for _ in news:
                    yield


def folders_around(files: Iterable[Path]) -> frozenset[Path]:
    """Every folder in which a change can change what these paths lead to.

    That is the folder of each file, of each symbolic link on the way to it, and of what a link points to. The files
    need not exist.
    """
    found: set[Path] = set()
    for file in files:
        found |= _folders_of(file.absolute())
    return frozenset(found)


def _folders_of(file: Path) -> set[Path]:
    found = set()
    for _ in range(LINKS):
        link = next((part for part in (*reversed(file.parents), file) if part.is_symlink()), None)
        if link is None:
            break
        found.add(link.parent)
        file = link.parent / link.readlink() / file.relative_to(link)
    # No link is left in any of these, so ".." can be taken at its word.
    return {Path(os.path.normpath(folder)) for folder in (*found, file.parent)}


async def _notified(folders: Folders) -> AsyncGenerator[None, None]:
    """Yield after changes that the kernel tells of; ends when a folder came, went or was replaced."""
    armed = _identities(folders())
    ended = threading.Event()
    batches = _batches([path for path, identity in armed.items() if identity is not None], ended)
    look = True  # once for what changed before the watch stood
    try:
        # watchfiles' own awatch cannot be cancelled before its thread returns, up to LOOK_MS later.
        while (batch := await anyio.to_thread.run_sync(next, batches, None, abandon_on_cancel=True)) is not None:
            moved = _identities(folders()) != armed
            if batch or look or moved:
                yield
            look = False
            if moved:
                return
    except FileNotFoundError:
        return  # gone between our look and the watch
    finally:
        ended.set()


def _batches(folders: Iterable[Path], ended: threading.Event) -> Iterator[set[FileChange]]:
    """Settled changes, and an empty set where there were none for LOOK_MS."""
    # Every default is spelled out: watchfiles would look into the environment for those that are not.
    return watch(
        *folders,
        watch_filter=None,
        debounce=SETTLE_MS,
        step=QUIET_MS,
        rust_timeout=LOOK_MS,
        yield_on_timeout=True,
        stop_event=ended,
        debug=False,
        raise_interrupt=False,
        force_polling=False,
        recursive=False,
        ignore_permission_denied=False,
    )


async def _polled(folders: Folders) -> AsyncGenerator[None, None]:
    """Yield after changes that listing the folders shows; ends when it is time to ask for a watch again."""
    told = before = await anyio.to_thread.run_sync(_listing, folders())
    yield
    for _ in range(RETRY_POLLS):
        await anyio.sleep(POLL_SEC)
        now = await anyio.to_thread.run_sync(_listing, folders())
        # Settled, or unsettled for the second time.
        if now != told and (now == before or before != told):
            told = now
            yield
        before = now


def _identities(folders: Iterable[Path]) -> Mapping[Path, Identity | None]:
    return {folder: _identity(folder) for folder in sorted(folders)}


def _identity(folder: Path) -> Identity | None:
    try:
        found = folder.stat()
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISDIR(found.st_mode) else None


def _listing(folders: Iterable[Path]) -> frozenset[tuple[str, int, int, int]]:
    """What stands in the folders: path, inode, size and time of each entry; links are followed."""
    found: set[tuple[str, int, int, int]] = set()
    for folder in folders:
        try:
            with os.scandir(folder) as entries:
                found.update(_entry(entry) for entry in entries)
        except OSError:
            continue  # absent: as good as empty
    return frozenset(found)


def _entry(entry: os.DirEntry[str]) -> tuple[str, int, int, int]:
    try:
        shown = entry.stat()
    except OSError:
        return entry.path, 0, 0, 0
    return entry.path, shown.st_ino, shown.st_size, shown.st_mtime_ns


def _sentence(error: Exception) -> str:
    return (
        f"cannot watch the configuration by inotify ({error}); its folders are listed every second instead; "
        "raise fs.inotify.max_user_watches or max_user_instances, or the limit of open files"
    )
