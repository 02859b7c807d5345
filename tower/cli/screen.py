"""What a verb prints: data on standard output, words on standard error.

Tables are drawn on a terminal only (rich is imported there and nowhere else); on a pipe the same rows are plain
columns with tabs between them, whole ids, and no header. Everything from outside passes `safe` first.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any, Final

from tower.cli import safe, words
from tower.core import ids
from tower.core.errors import TowerError

FORMAT: Final = 1
"""Of every `--json` document. Within one number, keys are added and never renamed, removed or given another meaning."""

STYLES: Final = {
    "running": "cyan",
    "starting": "cyan",
    "working": "cyan",
    "succeeded": "green",
    "landed": "green",
    "finished": "green",
    "held": "yellow",
    "waiting": "yellow",
    "parked": "yellow",
    "suspect": "bold yellow",
    **dict.fromkeys(("failed", "dead", "refused", "stalled", "timed_out", "no_output", "interrupted", "halted"), "red"),
}
"""Colour of a state or an outcome."""

STATE_COLUMNS: Final = frozenset({"STATE", "HELD"})
"""The columns that have colours: an agent may be called `failed`, and a reason may be one word."""

WORDS_WIDTH: Final = 20
"""Least width of a column of words, characters; below it a terminal is too narrow for anything."""


class ReaderGoneError(Exception):
    """Whoever read our standard output has enough (`| head`)."""


def on_terminal() -> bool:
    """Whether standard output is a terminal."""
    return sys.stdout.isatty()


def say(text: str) -> None:
    """Words for a person, on standard error."""
    with suppress(OSError):  # a closed standard error must not cost anybody the data
        print(safe.block(text), file=sys.stderr, flush=True)


def say_error(error: TowerError) -> None:
    """What went wrong and what to do about it, on standard error."""
    say(f"tower: {error.sentence}" + (f"\n  {error.hint}" if error.hint else ""))


def _give_up() -> None:
    """After a failed write: what is left goes nowhere, or the interpreter would try to write it at its end."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


@contextmanager
def _writing() -> Iterator[None]:
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        _give_up()
        raise ReaderGoneError from None
    except OSError as error:
        _give_up()
        raise TowerError("output", f"cannot write to standard output: {error.strerror}") from error


def out(text: str) -> None:
    """One piece of data that is text already made safe, and a newline."""
    with _writing():
        print(text)


def raw(data: bytes) -> None:
    """Foreign bytes: as they are on a pipe, as harmless text on a terminal."""
    with _writing():
        if on_terminal():
            sys.stdout.write(safe.block(data.decode(errors="replace")))
        else:
            sys.stdout.buffer.write(data)


def whole(data: bytes) -> None:
    """A whole foreign text; on a terminal its last line is ended, so that the prompt stands on one of its own."""
    raw(data + b"\n" if on_terminal() and not data.endswith(b"\n") else data)


def document(value: dict[str, Any]) -> None:
    """One `--json` document: the tower's own, with the number of its format in front."""
    out(json.dumps({"format": FORMAT, **value}, indent=2 if on_terminal() else None))


def shown(full: str) -> str:
    """An id as lists show it: its tail on a terminal, whole on a pipe."""
    return ids.short(full) if on_terminal() else full


def now() -> datetime:
    """The moment, in the zone of this machine."""
    return datetime.now().astimezone()


def when(iso: str | None) -> str:
    """A time: local on a terminal, as the tower wrote it (ISO 8601, UTC) on a pipe."""
    return words.moment(iso, now()) if on_terminal() else iso or words.NOTHING


def brief(iso: str | None) -> str:
    """The same for a column: on a terminal as short as is clear."""
    return words.brief(iso, now()) if on_terminal() else iso or words.NOTHING


def wall(circuit: dict[str, Any]) -> tuple[str, ...]:
    """A runner that cannot work at the moment, as a row."""
    return circuit["runner"], circuit["state"], brief(circuit["until"]), circuit["reason"]


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Rows under headings, or the word "nothing". On a pipe: tab-separated, without the headings."""
    rows = list(rows)
    if not on_terminal():
        for row in rows:
            out("\t".join(safe.line(cell) for cell in row))
        return
    if not rows:
        out("nothing")
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    for column in columns[:-1]:
        grid.add_column(column, no_wrap=True)
    # The last one is for words, and takes the room that is left.
    grid.add_column(columns[-1], overflow="fold", min_width=WORDS_WIDTH)
    for row in rows:
        styles = (
            STYLES.get(cell, "") if column in STATE_COLUMNS else "" for column, cell in zip(columns, row, strict=True)
        )
        grid.add_row(*(Text(safe.line(cell), style=style) for cell, style in zip(row, styles, strict=True)))
    with _writing():
        Console(highlight=False).print(grid)


def fields(pairs: Iterable[tuple[str, str]]) -> None:
    """Names and values, one pair a line; values line up on a terminal, a tab parts them on a pipe."""
    known = [(name, safe.line(value)) for name, value in pairs]
    width = max((len(name) for name, _ in known), default=0)
    for name, value in known:
        out(f"{name:{width}}  {value}" if on_terminal() else f"{name}\t{value}")
