"""Checks that are carried out in order, and the table that comes of them.

Used by what runs inside a booted Debian and by what drives containers; the standard library alone, since it runs on the
Python of a bare system.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import TextIO, TypeVar

Check = Callable[[], str]
Seen = TypeVar("Seen")

LAST_LINE = "-- all checks were carried out"
"""Without it the table is not whole: whatever carried the checks out has died on the way."""


class CheckFailedError(Exception):
    """What was found is not what is promised."""


class Checks:
    """Checks in the order in which they are written; each returns in a few words what it has seen."""

    def __init__(self) -> None:
        self._listed: list[tuple[str, Check]] = []

    def __call__(self, name: str) -> Callable[[Check], Check]:
        def note(check: Check) -> Check:
            self._listed.append((name, check))
            return check

        return note

    def carry_out(self, table: TextIO, *, before: Callable[[], None], on_failure: Callable[[], str]) -> bool:
        """Write one line for each check, and say whether all held. A check that fails does not end the others.

        `before` puts things in order ahead of each check; what `on_failure` tells is indented below a failed one.
        """
        held = True
        for name, check in self._listed:
            began = time.monotonic()
            try:
                before()
                word, seen = "ok", check()
            except Exception as error:  # a defect of a check is a failed check too
                held, word = False, "FAILED"
                seen = str(error) if isinstance(error, CheckFailedError) else repr(error)
            first, *rest = seen.splitlines() or [""]
            table.write(f"{word:6}  {time.monotonic() - began:6.1f} s  {name:58}  {first}\n")
            if word == "FAILED":
                rest += on_failure().splitlines()
            table.writelines(f"        | {line}\n" for line in rest)
            table.flush()
        table.write(f"{LAST_LINE}\n")
        return held


def same(what: str, found: object, wanted: object) -> None:
    """Raises CheckFailedError unless both are equal."""
    if found != wanted:
        raise CheckFailedError(f"{what}: {found!r}, not {wanted!r}")


def holds(what: str, *, is_so: bool) -> None:
    """Raises CheckFailedError unless it is so."""
    if not is_so:
        raise CheckFailedError(what)


def until(what: str, look: Callable[[], Seen], *, within: float = 20.0) -> Seen:
    """What `look` finds as soon as that is true, looked for again and again; `within` is in seconds."""
    deadline = time.monotonic() + within
    while not (seen := look()):
        if time.monotonic() > deadline:
            raise CheckFailedError(f"not within {within:.0f} s: {what} (last seen: {seen!r})")
        time.sleep(0.05)
    return seen


def run(*argv: str | Path, code: int | None = 0, within: float = 150.0) -> subprocess.CompletedProcess[str]:
    """Run a program to its end. Raises CheckFailedError when it ends otherwise than with `code` (None: anyhow)."""
    done = subprocess.run([str(part) for part in argv], capture_output=True, text=True, timeout=within, check=False)
    if code is not None and done.returncode != code:
        said = (done.stdout + done.stderr).strip()
        raise CheckFailedError(f"{' '.join(map(str, argv))}: exit code {done.returncode}, not {code}\n{said}")
    return done


def took(since: float) -> float:
    """Seconds since that moment of the monotonic clock."""
    return time.monotonic() - since
