"""`[layover] include`: which further files there are, and one document made of all of them.

Included files hold any table but `[layover]`. Tables with names are joined by name and lists of tables follow one
another; nothing is declared twice. Relative paths in them are taken from the folder of the named file, as everywhere.
"""

from __future__ import annotations

import glob
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tower.config.document import parse
from tower.config.files import MAX_CONFIG_BYTES, Unreadable, is_folder, is_inside, read_text, real, watch_folders
from tower.config.positions import KeyPath
from tower.config.problems import Findings, key_text
from tower.config.sources import Source

MAX_FILES: Final = 500
"""More than a factory has agents; each is read and watched at every look."""

BY_NAME: Final = ("agents", "pipelines", "rates", "runners", "tiers")
"""Tables whose entries may stand in several files."""

_PATH: Final = ("layover", "include")


@dataclass(slots=True, kw_only=True)
class Included:
    """What the included files came to."""

    watched: set[Path] = field(default_factory=set)
    """Existing folders in which a change may change a file, or make one match."""
    complete: bool = True
    """Whether all that was meant could be read; if not, what seems to be missing may stand in what was not."""


def include(
    patterns: Sequence[str], document: dict[str, Any], folder: Path, main: Path, findings: Findings
) -> Included:
    """Merge every file that a pattern names into `document`. `main` is the file that includes, `folder` its own.

    Problems go to `findings`, whose sources learn where the merged keys stand; nothing is raised.
    """
    included = Included()
    left = MAX_CONFIG_BYTES - len(findings.sources.main.text.encode())
    for path, key in _files(patterns, folder, main, included, findings).items():
        text = read_text(path, MAX_CONFIG_BYTES)
        source = _source(path, text, key, findings)
        if isinstance(text, Unreadable) or source is None:
            included.complete = False
            continue
        left -= len(text.encode())
        if left < 0:
            findings.error(
                _PATH, f"makes more than {MAX_CONFIG_BYTES} bytes of configuration", "put prompts into files"
            )
            included.complete = False
            break
        table = parse(source, findings)
        if table is None:
            included.complete = False
            continue
        findings.sources.included.append(source)
        _merge(document, table, source, findings)
    return included


def _files(
    patterns: Sequence[str], folder: Path, main: Path, included: Included, findings: Findings
) -> Mapping[Path, KeyPath]:
    """The files, in order of the patterns and then of their names, each once, with the key that names them first."""
    found: dict[Path, KeyPath] = {}
    for index, pattern in enumerate(patterns):
        key: KeyPath = (*_PATH, index)
        included.watched.update(_watched(folder, pattern))
        names = _matches(folder, pattern)
        if not names:
            _nothing(folder, pattern, key, included, findings)
        for path in (folder / name for name in names):
            problem = _unfit(path, folder, main)
            if problem:
                findings.error(key, *problem)
                included.complete = False
            elif path not in found:
                found[path] = key
                included.watched |= watch_folders(path)
    if len(found) > MAX_FILES:
        findings.error(_PATH, f"names {len(found)} files, and {MAX_FILES} may be included", "write fewer, larger files")
        included.complete = False
        return {}
    return found


def _matches(folder: Path, pattern: str) -> list[str]:
    # Path.glob would find what editors write beside a file, under names that begin with a dot.
    return sorted(glob.glob(pattern, root_dir=folder))  # noqa: PTH207


def _nothing(folder: Path, pattern: str, key: KeyPath, included: Included, findings: Findings) -> None:
    if glob.has_magic(pattern):
        findings.warning(key, f"matches no file in {folder}", "make one, or remove the pattern")
    else:
        findings.error(key, f"names {pattern}, which was not found; tried {folder / pattern}", "make the file")
        included.complete = False


def _unfit(path: Path, folder: Path, main: Path) -> tuple[str, str] | None:
    target = real(path)
    if target == real(main):
        return (
            f"includes {path.name}, which is this very file",
            'write a pattern that leaves it out, such as "agents/*.toml"',
        )
    if not is_inside(target, real(folder)):
        return f"names {path}, which leads outside {folder}", "move the file into that folder"
    return None


def _watched(folder: Path, pattern: str) -> Iterator[Path]:
    """Folders in which a file or a folder may appear that the pattern matches."""
    parts = Path(pattern).parts
    for depth in range(len(parts)):
        for name in _matches(folder, str(Path(*parts[:depth]))) if depth else ["."]:
            place = folder / name
            if is_folder(place):
                yield from watch_folders(place / "any")


def _source(path: Path, text: str | Unreadable, key: KeyPath, findings: Findings) -> Source | None:
    shown = findings.shown(path)
    if not isinstance(text, Unreadable):
        return Source(file=shown, text=text)
    if text.line:
        findings.add(shown, text.line, text.column, "", text.sentence, text.hint, "error")
    else:
        findings.error(key, f"names {path}, which {text.sentence}", text.hint)
    return None


def _merge(document: dict[str, Any], table: Mapping[str, Any], source: Source, findings: Findings) -> None:
    sources = findings.sources
    for key, value in table.items():
        there = document.get(key)
        if key == "layover":
            _refuse(
                source, (key,), f"stands in an included file; it belongs into {sources.main.file}", "move it", findings
            )
        elif key not in document:
            document[key] = dict(value) if isinstance(value, dict) and key in BY_NAME else value
            sources.adopt((key,), source, (key,))
            # A later file may add to it, so that each entry says for itself where it stands.
            for entry in value if key in BY_NAME and isinstance(value, dict) else ():
                sources.adopt((key, entry), source, (key, entry))
        elif isinstance(value, list) and isinstance(there, list):
            for index in range(len(value)):
                sources.adopt((key, len(there) + index), source, (key, index))
            document[key] = [*there, *value]
        elif key in BY_NAME and isinstance(value, dict) and isinstance(there, dict):
            for name, entry in value.items():
                if name in there:
                    _twice(source, (key, name), findings)
                else:
                    there[name] = entry
                    sources.adopt((key, name), source, (key, name))
        else:
            _twice(source, (key,), findings)


def _twice(source: Source, path: KeyPath, findings: Findings) -> None:
    file, line, _ = findings.sources.find(path)
    _refuse(source, path, f"is declared in {file}:{line} as well", "keep one of the two", findings)


def _refuse(source: Source, path: KeyPath, sentence: str, hint: str, findings: Findings) -> None:
    line, column = source.positions.find(path)
    findings.add(source.file, line, column, key_text(path), sentence, hint, "error")
