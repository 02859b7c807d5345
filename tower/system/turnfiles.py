"""A resident's turns as files: written whole by the tower, taken or left by the keeper.

`turns/NUMBER` is renamed once: to `.told` by the keeper that tells it, or to `.void` by a tower, and then nobody ever
will. The keeper's side is `keeper.inlet`.
"""

from __future__ import annotations

import os
from pathlib import Path

from tower.system.files import write_private
from tower.system.keeper.protocol import TOLD, TURNS, VOID


def make_turns(folder: Path) -> None:
    """Where the turns of the process in `folder` will lie. Raises OSError."""
    (folder / TURNS).mkdir(mode=0o700, exist_ok=True)


def write_turn(folder: Path, number: int, line: bytes) -> None:
    """A turn that may be told from now on. Raises OSError."""
    write_private(folder / TURNS / str(number), line)


def was_told(folder: Path, number: int) -> bool:
    """Whether the keeper took it, so that the program may have acted on it."""
    return os.path.lexists(folder / TURNS / f"{number}{TOLD}")


def void_turn(folder: Path, number: int) -> bool:
    """Decide that a turn will never be told; False when the keeper took it first."""
    turn = folder / TURNS / str(number)
    try:
        turn.rename(turn.with_name(f"{number}{VOID}"))
    except FileNotFoundError:
        # Never written, voided before, or taken: a number is asked of a keeper once, so what is not there stays so.
        return not was_told(folder, number)
    return True
