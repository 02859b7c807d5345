"""Prompts with what they include: read as far as the files go, and refused where they lead too far.

Works on the grammar of `core.prompts`, and has the files read by `texts`. A file is composed once, however many
prompts include it, so that a diamond of includes costs no more than its files.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from tower.config.files import MAX_TEXT_BYTES, real
from tower.config.texts import Fault, Library, Text
from tower.core.prompts import Directive, Malformed, Passage, Prompt, pieces

MAX_DEPTH: Final = 8
"""Files inside one another below the prompt itself."""

MAX_INCLUDES: Final = 1000
"""Of one prompt, counted as often as they appear: what 1 MiB of empty files would come to is not waited for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tested:
    """A place where a prompt tests a flag."""

    flag: str
    path: Path | None
    """The file; None for the text in the configuration."""
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Composed:
    """A prompt, and where it tests flags."""

    prompt: Prompt
    tested: tuple[Tested, ...]


@dataclass(slots=True, kw_only=True)
class _Parts:
    """What a text has come to so far."""

    passages: list[Passage] = field(default_factory=list)
    digests: dict[str, str] = field(default_factory=dict)
    tested: dict[Tested, None] = field(default_factory=dict)
    size: int = 0
    """Bytes, everything told that any flag lets be told."""
    includes: int = 0
    height: int = 0
    """How deep its files lie inside one another; 0: it includes none."""


class Composition:
    """Composes the prompts of one configuration."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._known: dict[Text, _Parts | None] = {}
        """None: it was refused, and said to be."""
        self._faults: list[Fault] = []

    def file(self, source: Text) -> Composed | tuple[Fault, ...]:
        """The prompt that a file comes to, or what is wrong with it; of that, what was said before is left out."""
        return self._result(self._of_file(source, (), 0))

    def text(self, text: str) -> Composed | tuple[Fault, ...]:
        """The prompt that a text of the configuration comes to; its paths are taken from `prompt_dir`."""
        return self._result(self._compose(text, None, (), 0))

    def _result(self, parts: _Parts | None) -> Composed | tuple[Fault, ...]:
        faults, self._faults = tuple(self._faults), []
        if parts is None:
            return faults
        prompt = Prompt(passages=tuple(parts.passages), digests=parts.digests)
        return Composed(prompt=prompt, tested=tuple(parts.tested))

    def _of_file(self, source: Text, above: tuple[Path, ...], depth: int) -> _Parts | None:
        if source not in self._known:
            # Blank lines at its end are not told: they would be holes in the text around it.
            text = source.text.rstrip()
            if "@include" in text:  # else nobody asks where it leads, which takes a while to find out
                above = (*above, real(source.path))
            parts = self._compose(f"{text}\n" if text else "", source.path, above, depth)
            if parts is not None:
                # A file that does nothing but include others is part of what is told all the same.
                parts.passages.insert(0, Passage(text="", file=str(source.path)))
                parts.digests[str(source.path)] = hashlib.sha256(source.text.encode()).hexdigest()
            self._known[source] = parts
        return self._known[source]

    def _compose(self, text: str, path: Path | None, above: tuple[Path, ...], depth: int) -> _Parts | None:
        """What a text comes to. `above`: the real paths of its file and those that led to it; `depth`: how deep."""
        file = str(path) if path else None
        parts = _Parts()
        is_sound = True
        for piece in pieces(text):
            if isinstance(piece, str):
                parts.size += len(piece.encode())
                parts.passages.append(Passage(text=piece, file=file))
            elif isinstance(piece, Malformed):
                is_sound = self._refuse(f"@include {piece.why}", piece.hint, path, piece.line)
            else:
                is_sound = self._include(piece, parts, path, above, depth) and is_sound
            if parts.size > MAX_TEXT_BYTES or parts.includes > MAX_INCLUDES:
                self._refuse(*_TOO_MUCH, path, 0 if isinstance(piece, str) else piece.line)
                return None
        return parts if is_sound else None

    def _include(
        self, directive: Directive, parts: _Parts, path: Path | None, above: tuple[Path, ...], depth: int
    ) -> bool:
        """Add what an `@include` stands for; False when it was refused, here or before."""
        name, line = directive.path, directive.line
        source = self._library.include(name, path.parent if path else self._library.prompt_dir)
        if isinstance(source, Fault):
            # Of a text that cannot be read the place in it is said, of any other the line that asks for it.
            self._faults.append(source if source.path else replace(source, path=path, line=line))
            return False
        if real(source.path) in above:
            return self._refuse(f"includes {name}, which leads back to itself", "remove one of the two", path, line)
        inner = self._of_file(source, above, depth + 1) if depth < MAX_DEPTH else None
        if inner is None and depth < MAX_DEPTH:
            return False
        if inner is None or depth + 1 + inner.height > MAX_DEPTH:
            return self._refuse(f"includes {name}, more than {MAX_DEPTH} files deep", "include less deeply", path, line)
        _add(parts, inner, directive, path)
        return True

    def _refuse(self, sentence: str, hint: str, path: Path | None, line: int) -> bool:
        self._faults.append(Fault(sentence=sentence, hint=hint, path=path, line=line))
        return False


_TOO_MUCH: Final = (
    f"comes to more than {MAX_TEXT_BYTES} bytes, or to more than {MAX_INCLUDES} files",
    "include less; parts that a flag leaves out count too",
)


def _add(parts: _Parts, inner: _Parts, directive: Directive, path: Path | None) -> None:
    condition = frozenset({directive.when} if directive.when else ())
    if directive.when:
        parts.tested[Tested(flag=directive.when.flag, path=path, line=directive.line)] = None
    inside = (replace(passage, when=passage.when | condition) for passage in inner.passages)
    parts.passages += (passage for passage in inside if passage.is_possible)
    parts.digests |= inner.digests
    parts.tested |= inner.tested
    parts.size += inner.size
    parts.includes += 1 + inner.includes
    parts.height = max(parts.height, 1 + inner.height)
