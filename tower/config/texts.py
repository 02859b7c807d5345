"""Prompt, persona and role files: where they are looked for, and the text that comes of them.

A file is looked for in `prompt_dir`, then in the configuration file's folder; never where the daemon happens to stand.
It must lie inside one of the two, symlinks followed. Texts are read once, at load; a run uses those bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from tower.config.files import MAX_TEXT_BYTES, Look, Unreadable, lies_in, read_text, real

_DIRECTIVE: Final = re.compile(r"@include(?=[\s(]|$)")
_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})")
_FRONT_MATTER: Final = re.compile(r"---[ \t]*\n(.*?)^---[ \t]*$\n?", re.DOTALL | re.MULTILINE)
_PERSONA_SECTIONS: Final = ("persona", "background", "communication style")
_MAX_FRONT_MATTER: Final = 4096
"""Characters: three short keys; a YAML reader is slow, and this one reads what anybody wrote."""
_ROLE_KEYS: Final = frozenset({"name", "position", "description"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """One file's text. `path` is where it was found."""

    path: Path
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Why there is no text. With a `path`, a line of that file is meant, else the key that names the file."""

    sentence: str
    hint: str
    path: Path | None = None
    line: int = 1
    column: int = 1


class Library:
    """Reads text files by the names that stand in the configuration, each once."""

    def __init__(self, *, folder: Path, prompt_dir: Path) -> None:
        self._folders = tuple(dict.fromkeys((prompt_dir, folder)))
        self._real_folders = tuple(str(real(folder)) for folder in self._folders)
        self._look = Look()
        self._read: dict[str, Text | Fault] = {}
        self.watched: set[Path] = set()
        """Folders in which a change may change a text, or make one appear."""

    def read(self, name: str) -> Text | Fault:
        """The text of the file `name`, as it stands."""
        if name not in self._read:
            self._read[name] = self._find(name)
        return self._read[name]

    @property
    def texts(self) -> tuple[Text, ...]:
        """Every text read, in order of their paths."""
        found = (text for text in self._read.values() if isinstance(text, Text))
        return tuple(sorted(found, key=lambda text: str(text.path)))

    def _find(self, name: str) -> Text | Fault:
        places = tuple(dict.fromkeys(_join(str(folder), name) for folder in self._folders))
        for place in places:
            found = self._look.find(place)
            self.watched |= found.watched
            if found.exists:
                break
        else:
            return Fault(
                sentence=f"names {name}, which was not found; tried {', then '.join(places)}",
                hint="make the file, or name another",
            )
        if not any(lies_in(found.real, folder) for folder in self._real_folders):
            return Fault(
                sentence=f"names {name}, which leads outside {' and '.join(map(str, self._folders))}",
                hint="move the file into one of them",
            )
        path = Path(place)
        text = read_text(path, MAX_TEXT_BYTES)
        if not isinstance(text, Unreadable):
            return Text(path=path, text=text)
        if text.line:
            return Fault(sentence=text.sentence, hint=text.hint, path=path, line=text.line, column=text.column)
        return Fault(sentence=f"names {name}, which {text.sentence}", hint=text.hint)


def _join(folder: str, name: str) -> str:
    return name if name.startswith("/") else f"{folder}/{name}"


def names_file(value: str) -> bool:
    """Whether a persona or role is the name of a file: one line that ends in `.md`. Anything else is prose."""
    return value.endswith(".md") and "\n" not in value


def include_directives(text: str) -> Iterator[int]:
    """Lines (counted from 1) that hold an `@include`; inside a fenced block of code it is text."""
    fence = ""
    if "@include" not in text:
        return
    for number, line in enumerate(text.split("\n"), start=1):
        mark = _FENCE.match(line)
        if fence:
            closes = mark and mark[1].startswith(fence) and not line[mark.end() :].strip()
            fence = "" if closes else fence
        elif mark:
            fence = mark[1]
        elif _DIRECTIVE.match(line):
            yield number


def persona_text(text: str) -> str:
    """The persona that a file describes: its sections Persona, Background and Communication Style, else all of it.

    A first line `# Persona: NAME` is kept. Sections without a word are left out.
    """
    head, *sections = re.split(r"^##[ \t]+(?=\S)", text, flags=re.MULTILINE)
    known = [part for part in sections if part.split("\n", 1)[0].strip().lower() in _PERSONA_SECTIONS]
    if not known:
        return text.strip()
    kept = [f"## {part.strip()}" for part in known if "".join(part.split("\n", 1)[1:]).strip()]
    title = head.split("\n", 1)[0].strip()
    if kept and re.match(r"# Persona:", title, re.IGNORECASE):
        kept.insert(0, title)
    return "\n\n".join(kept)


def role_text(source: Text) -> str | Fault:
    """The body of a role file; front matter may say `name`, `description` and `position`."""
    found = _FRONT_MATTER.match(source.text)
    if found is None:
        return source.text.strip()
    fault = _front_matter_fault(found[1], source.path)
    return fault or source.text[found.end() :].strip()


def _front_matter_fault(block: str, path: Path) -> Fault | None:
    if len(block) > _MAX_FRONT_MATTER:
        return Fault(sentence="has front matter that is too long", hint="move it below", path=path)
    try:
        front: Any = yaml.safe_load(block) or {}
    except (yaml.YAMLError, ValueError, RecursionError):
        return Fault(sentence="has front matter that is not YAML", hint='write "key: value" lines', path=path)
    if not isinstance(front, dict) or not front.keys() <= _ROLE_KEYS:
        known = ", ".join(sorted(_ROLE_KEYS))
        return Fault(sentence="has unknown front matter", hint=f"use only {known}", path=path)
    if front.get("position", "participant") == "participant":
        return None
    if front["position"] == "orchestrator":
        hint = "remove position; for now: every agent is a participant"
        return Fault(sentence='position "orchestrator" is not available yet', hint=hint, path=path)
    return Fault(sentence="has an unknown position", hint="write participant, or remove position", path=path)
