"""What is wrong with a configuration, as values that point at a line.

`Findings` gathers problems while a file is read, so that all of them are listed together. The wording of each belongs
to the check that found it; how they are shown is left to `cli`, `web` and the log.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from tower.config.positions import KeyPath
from tower.config.sources import Sources

Severity = Literal["error", "warning"]

ENVIRONMENT: Final = "environment"
"""Stands as the file of a problem that an environment variable causes."""

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is wrong: where, which key, what, and what to write instead."""

    file: str
    """As a person would name it from where they stand, or `ENVIRONMENT`."""
    line: int
    """Counted from 1; 0 when the file as a whole is meant."""
    column: int
    """In characters, counted from 1; 0 when `line` is."""
    key: str
    """Dotted (`agents.tester.timeout_sec`); empty when no key is meant."""
    sentence: str
    hint: str = ""
    severity: Severity = "error"

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        what = f"{self.sentence}; {self.hint}" if self.hint else self.sentence
        return ": ".join(part for part in (place, self.key, what) if part)

    @property
    def is_error(self) -> bool:
        return self.severity == "error"


def key_text(path: KeyPath) -> str:
    """A key path as text: `routes[0].to`; names that are not bare are quoted, their control characters escaped."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += ("." if text else "") + (part if _BARE.fullmatch(part) else json.dumps(part))
    return text


class Findings:
    """Problems found so far in one configuration. The same finding at the same place is kept once."""

    def __init__(self, sources: Sources, folder: Path, overridden: Mapping[KeyPath, str] | None = None) -> None:
        """`sources` begins with the configuration file that a person named; `folder` is the absolute one it is in.

        `overridden` has the keys whose value comes from a variable instead: their problems are the variable's.
        """
        self.sources = sources
        self._folder = folder
        self._overridden = overridden or {}
        self._found: dict[Problem, None] = {}

    def error(self, path: KeyPath, sentence: str, hint: str = "") -> None:
        """An error at a key of the configuration, or at the nearest table around it that stands there."""
        self._at(path, sentence, hint, "error")

    def warning(self, path: KeyPath, sentence: str, hint: str = "") -> None:
        """Like `error`, for what may be meant."""
        self._at(path, sentence, hint, "warning")

    def inside(
        self, path: KeyPath, line: int, beginning: str, sentence: str, hint: str, severity: Severity = "error"
    ) -> None:
        """A problem in a line of the text that a key holds; the line begins like this."""
        self.add(*self.sources.inside(path, line, beginning), key_text(path), sentence, hint, severity)

    def shown(self, path: Path) -> str:
        """A path as a person would name it who named the configuration file."""
        try:
            return str(Path(self.sources.main.file).parent / path.relative_to(self._folder))
        except ValueError:
            return str(path)

    def environment(self, variable: str, sentence: str, hint: str = "", severity: Severity = "error") -> None:
        """A problem with a variable of the tower's own environment."""
        self.add(ENVIRONMENT, 0, 0, variable, sentence, hint, severity)

    def add(self, file: str, line: int, column: int, key: str, sentence: str, hint: str, severity: Severity) -> None:
        """A problem anywhere."""
        problem = Problem(file=file, line=line, column=column, key=key, sentence=sentence, hint=hint, severity=severity)
        self._found[problem] = None

    def _at(self, path: KeyPath, sentence: str, hint: str, severity: Severity) -> None:
        if variable := self._overridden.get(path[:2]):
            self.environment(variable, sentence, hint, severity)
            return
        file, line, column = self.sources.find(path)
        self.add(file, line, column, key_text(path), sentence, hint, severity)

    @property
    def has_errors(self) -> bool:
        return any(problem.is_error for problem in self._found)

    def sorted(self) -> tuple[Problem, ...]:
        """By position, those of the configuration file first."""
        return tuple(
            sorted(self._found, key=lambda it: (it.file != self.sources.main.file, it.file, it.line, it.column))
        )
