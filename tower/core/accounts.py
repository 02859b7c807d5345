"""What a run says of itself: its report, and its requests for help to a person.

Owns the records and their bounds; how they are stored and who may ask for them is left to `store` and `control`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tower.core.errors import InvalidError
from tower.core.redaction import strike

HEADLINE_CHARS: Final = 160
BODY_CHARS: Final = 12_000
ARTIFACTS: Final = 32
ARTIFACT_CHARS: Final = 1_000
SUMMARY_CHARS: Final = 300

OPEN_OF_A_RUN: Final = 8
"""Requests for help that one run may have open: past that it asks in circles."""

BLOCKERS: Final = ("access", "environment", "ambiguity", "dependency", "tooling", "other")
"""The categories of a request for help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The account of one run. A later one of the same run takes its place."""

    run: str
    at: float
    headline: str
    body: str
    artifacts: tuple[str, ...] = ()
    """Files that it made or changed, relative to the place that it worked in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HelpRequest:
    """What a run wants a person to know or to do. Open until somebody resolves it."""

    id: str
    run: str
    itinerary: str
    agent: str
    at: float
    blocker: str
    summary: str
    detail: str
    fatal: bool = False
    """The run could not go on; its chain waits until this is resolved."""
    resolved_at: float | None = None
    resolved_by: str | None = None
    note: str | None = None
    """What the person who resolved it wrote."""


@dataclass(frozen=True, slots=True)
class Trimmed:
    """A text within its bound; `cut` says in words what was left out."""

    text: str
    cut: str | None = None


def headline(text: str) -> Trimmed:
    """A headline on one line. Raises `InvalidError` for one that says nothing."""
    return _trim("headline", " ".join(_sound("headline", text).split()), HEADLINE_CHARS)


def summary(text: str) -> Trimmed:
    """The one line of a request for help, without credentials. Raises `InvalidError` for one that says nothing."""
    return _trim("summary", strike(" ".join(_sound("summary", text).split())), SUMMARY_CHARS)


def detail(text: str) -> Trimmed:
    """The rest of a request for help, without credentials."""
    return _trim("detail", strike(_whole("detail", text).strip()), BODY_CHARS)


def body(text: str) -> Trimmed:
    """The text of a report."""
    return _trim("body", _whole("body", text).strip(), BODY_CHARS)


def artifacts(paths: Sequence[str]) -> tuple[tuple[str, ...], str | None]:
    """The first `ARTIFACTS` paths, and in words what was left out."""
    kept = tuple(dict.fromkeys(_whole("artifact", path) for path in paths))
    if len(kept) <= ARTIFACTS:
        return kept, None
    return kept[:ARTIFACTS], f"only the first {ARTIFACTS} of {len(kept)} artifacts are kept"


def blocker(name: str | None) -> str:
    """A category; unset is `other`. Raises `InvalidError` for an unknown one."""
    if name is None:
        return "other"
    if name not in BLOCKERS:
        raise InvalidError(
            "bad-blocker", f"cannot file this under {name[:80]!r}", f"blocker is one of {', '.join(BLOCKERS)}"
        )
    return name


def _sound(what: str, text: str) -> str:
    if not text.strip():
        raise InvalidError(f"empty-{what}", f"cannot take an empty {what}", f"say in one line what the {what} is")
    return _whole(what, text)


def _whole(what: str, text: str) -> str:
    if any("\ud800" <= sign <= "\udfff" for sign in text) or "\0" in text:
        raise InvalidError("not-text", f"cannot take this {what}: it is not UTF-8 text", "send text")
    return text


def _trim(what: str, text: str, most: int) -> Trimmed:
    if len(text) <= most:
        return Trimmed(text)
    return Trimmed(text[:most], f"the {what} was cut to its first {most} of {len(text)} characters")
