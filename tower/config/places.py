"""Where an agent works: its folder with symlinks followed, and whether that place can be used as it is meant.

Making a snapshot, and taking the writer's seat of a tree, are left to `system` and the engine.
"""

from __future__ import annotations

import os
from pathlib import Path

from tower.config.files import exists, is_folder, is_inside, real
from tower.config.positions import KeyPath
from tower.config.problems import Findings
from tower.config.tables import Tables
from tower.core.factory import Settings


class WorkTrees:
    """The trees of one factory. What is wrong with one is said where it is named, once for all who work there."""

    def __init__(self, tables: Tables, settings: Settings, folder: Path, findings: Findings) -> None:
        self._tables = tables
        self._settings = settings
        self._folder = folder
        self._findings = findings
        self._shared = Path(settings.work_dir)
        self._checked: set[KeyPath] = set()

    def resolve(self, name: str) -> str:
        """The real path of the tree that agent `name` works in; what is wrong with it goes to the findings."""
        agent, layover = self._tables.agents[name], self._tables.layover
        path: KeyPath = ("layover", "work_dir")
        if agent.value.work_dir is None:
            place = self._shared
            if "work_dir" in agent.unsound | layover.unsound:
                return str(place)
        else:
            place, path = real(self._folder / agent.value.work_dir), ("agents", name, "work_dir")
            if layover.unsound.isdisjoint({"work_dir", "allowed_dirs"}):
                _check_allowed(place, self._settings, path, self._findings)
        if path not in self._checked:
            self._checked.add(path)
            _check_use(place, path, self._settings, self._findings)
        if agent.value.access == "read-only":
            _check_snapshots(place, ("agents", name, "access"), self._folder, self._findings)
        return str(place)


def _check_allowed(place: Path, settings: Settings, path: KeyPath, findings: Findings) -> None:
    allowed = (settings.work_dir, *settings.allowed_dirs)
    if not any(is_inside(place, Path(folder)) for folder in allowed):
        findings.error(
            path,
            f"is {place}, which lies outside {' and '.join(allowed)}",
            "choose a folder inside, or add it to [layover] allowed_dirs",
        )


def _check_use(place: Path, path: KeyPath, settings: Settings, findings: Findings) -> None:
    if not exists(place):
        findings.warning(path, f"there is no folder {place}", "make it before the tower is started")
    elif not is_folder(place):
        findings.error(path, f"{place} is not a folder", "name a folder")
    if is_inside(place, real(Path(settings.state_dir))):
        findings.error(path, f"{place} lies inside the state folder", "choose a folder outside")
    # The tower would be edited while it runs.
    if real(place / "tower" / "__init__.py") == real(Path(__file__).parents[1] / "__init__.py"):
        findings.warning(path, f"{place} is the source of the tower that runs here", "work on another checkout")


def lacks_repository(place: Path) -> bool:
    """Whether a folder is there, and lies in no git work tree."""
    return is_folder(place) and not any(exists(above / ".git") for above in (place, *place.parents))


def way_to_a_repository(place: Path, folder: Path) -> str:
    """What to do about a folder that lies in no git work tree; `folder` is that of the factory's file."""
    if all(exists(place / part) for part in ("HEAD", "objects", "refs")):
        return f"it is a bare repository: name a work tree of it (`git -C {place} worktree add PATH` makes one)"
    return "run `git init` there" if _may_become_a_repository(place, folder) else "name a repository in work_dir"


def _check_snapshots(place: Path, path: KeyPath, folder: Path, findings: Findings) -> None:
    if lacks_repository(place):
        findings.error(
            path,
            f"read-only needs a git work tree to take snapshots of, and {place} is none",
            f'{way_to_a_repository(place, folder)}, or write access = "read-write"',
        )


def _may_become_a_repository(place: Path, folder: Path) -> bool:
    """Whether to advise `git init`: for a folder that belongs to the factory or to a person, not to the system."""
    around = (real(folder), real(Path(os.path.expanduser("~"))))  # noqa: PTH111 - Path's raises without a home
    below = any(above in place.parents for above in around if above != Path("/"))
    return below or (place == around[0] and len(place.parts) > 2)
