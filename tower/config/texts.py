"""Prompt, persona, role and skill files: where they are looked for, and what stands in them.

A file is looked for in `prompt_dir`, then in the configuration file's folder; never where the daemon happens to stand.
It must lie inside one of the two, symlinks followed, and one that a prompt includes inside `prompt_dir`. Texts are read
once, at load; a run uses those bytes. What a text means is left to `forms`, what it includes to `composition`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from tower.config.files import MAX_TEXT_BYTES, Look, Unreadable, exists, lies_in, read_text, real, watch_folders


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """One file's text. `path` is where it was found."""

    path: Path
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Why there is no text, or what is wrong in one."""

    sentence: str
    hint: str
    path: Path | None = None
    """The file that is wrong; None: the key that names it, or holds the text."""
    line: int = 0
    """In that file, or in the text that the key holds; 0 for the whole of it."""
    column: int = 1


class Library:
    """Reads text files by the names that stand in the configuration, each once."""

    def __init__(self, *, folder: Path, prompt_dir: Path) -> None:
        self.prompt_dir = prompt_dir
        self._folders = tuple(dict.fromkeys((prompt_dir, folder)))
        self._real_folders = tuple(str(real(folder)) for folder in self._folders)
        self._look = Look()
        self._read: dict[str, Text | Fault] = {}
        self._included: dict[str, Text | Fault] = {}
        """By absolute path: what a prompt may include is not all that the configuration may name."""
        self.watched: set[Path] = set()
        """Folders in which a change may change a text, or make one appear."""

    def read(self, name: str, *, built_in: Path | None = None) -> Text | Fault:
        """The text of the file `name`, as it stands; `built_in` is a folder of the tower's own to look in last."""
        if name not in self._read:
            self._read[name] = self._find(name, built_in)
        return self._read[name]

    def include(self, name: str, folder: Path) -> Text | Fault:
        """The text of a file that a prompt in `folder` includes; it must lie inside `prompt_dir`, symlinks followed."""
        target = _join(str(folder), name)
        if target not in self._included:
            self._included[target] = self._find_included(name, target)
        return self._included[target]

    def built_in(self, path: Path) -> Text | Fault:
        """A text that comes with the tower."""
        key = str(path)
        if key not in self._read:
            self._read[key] = _text(path, f"{path.name}")
        return self._read[key]

    @property
    def texts(self) -> tuple[Text, ...]:
        """Every text read, in order of their paths."""
        found = {text for text in (*self._read.values(), *self._included.values()) if isinstance(text, Text)}
        return tuple(sorted(found, key=lambda text: str(text.path)))

    def _find(self, name: str, built_in: Path | None) -> Text | Fault:
        places = tuple(dict.fromkeys(_join(str(folder), name) for folder in self._folders))
        for place in places:
            found = self._look.find(place)
            self.watched |= found.watched
            if found.exists:
                break
        else:
            if built_in is not None and (built_in / name).parent == built_in and exists(built_in / name):
                return self.built_in(built_in / name)
            tried = (*places, str(built_in / name)) if built_in is not None else places
            return Fault(
                sentence=f"names {name}, which was not found; tried {', then '.join(tried)}",
                hint="make the file, or name another",
            )
        if not any(lies_in(found.real, folder) for folder in self._real_folders):
            return Fault(
                sentence=f"names {name}, which leads outside {' and '.join(map(str, self._folders))}",
                hint="move the file into one of them",
            )
        return _text(Path(place), f"names {name}, which")

    def _find_included(self, name: str, target: str) -> Text | Fault:
        if ".." in target.split("/"):
            # As the system follows it, and as it reads: a link on the way may be changed.
            self.watched |= watch_folders(Path(os.path.normpath(target)))
            folder, base = os.path.split(target)
            target = f"{os.path.realpath(folder)}/{base}"
        found = self._look.find(target)
        self.watched |= found.watched
        if not lies_in(found.real, self._real_folders[0]):
            return Fault(
                sentence=f"includes {name}, which leads outside {self.prompt_dir}",
                hint="move the file into that folder",
            )
        if not found.exists:
            return Fault(
                sentence=f"includes {name}, which was not found; tried {target}",
                hint="make the file; its path is taken from the folder of the file that includes it",
            )
        return _text(Path(target), f"includes {name}, which")


def _text(path: Path, beginning: str) -> Text | Fault:
    text = read_text(path, MAX_TEXT_BYTES)
    if not isinstance(text, Unreadable):
        return Text(path=path, text=text)
    if text.line:
        return Fault(sentence=text.sentence, hint=text.hint, path=path, line=text.line, column=text.column)
    return Fault(sentence=f"{beginning} {text.sentence}", hint=text.hint)


def _join(folder: str, name: str) -> str:
    return name if name.startswith("/") else f"{folder}/{name}"
