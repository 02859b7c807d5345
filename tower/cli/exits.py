"""Exit codes of `tower`, and which one an error becomes. From 64 up they are those of sysexits.h."""

from __future__ import annotations

from typing import Final

from tower.core.errors import BusyError, InvalidError, RefusedError, TowerError, UnreachableError

DONE: Final = 0
FAILED: Final = 1
USAGE: Final = 2
NOT_WELL: Final = 3
"""What was asked about is not well, or waits for a person (`status`, `wait`, `send --wait`)."""
UNREACHABLE: Final = 69
BUSY: Final = 75
REFUSED: Final = 77
CONFIGURATION: Final = 78
INTERRUPTED: Final = 130
"""128 + SIGINT, as shells have it."""

_OF_ERRORS: Final[tuple[tuple[type[TowerError], int], ...]] = (
    (RefusedError, REFUSED),
    (InvalidError, USAGE),
    (BusyError, BUSY),
    (UnreachableError, UNREACHABLE),
)


def of(error: TowerError) -> int:
    """The exit code that an error ends a verb with."""
    if error.code.startswith("config"):
        return CONFIGURATION
    return next((code for kind, code in _OF_ERRORS if isinstance(error, kind)), FAILED)
