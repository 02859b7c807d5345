"""Ids: a prefix that says what is named, and a ULID that sorts by time.

`flt_`, `itn_`, `run_`, `prc_`, `lay_`, `help_`, `lrn_`. Clock and chance are passed in. Lists show a short
tail; every command accepts any unambiguous tail (the look-up itself belongs to the store).
"""

from __future__ import annotations

from typing import Final

FLIGHT: Final = "flt"
ITINERARY: Final = "itn"
RUN: Final = "run"
PROCESS: Final = "prc"
HELP: Final = "help"
PREFIXES: Final = (FLIGHT, ITINERARY, RUN, PROCESS, HELP, "lay", "lrn")

RANDOM_BYTES: Final = 10
"""Bytes of chance in a ULID (80 bits), as its specification has it."""

ULID_CHARS: Final = 26
"""Characters of an id behind its prefix."""

TAIL_CHARS: Final = 6
"""Characters of an id that lists show: 30 bits, enough to be unambiguous among some thousand entries."""

_ALPHABET: Final = frozenset("0123456789ABCDEFGHJKMNPQRSTVWXYZ")


def new_id(prefix: str, now: float, chance: bytes) -> str:
    """Make an id from the time (seconds since the epoch, UTC) and `RANDOM_BYTES` bytes of chance."""
    if prefix not in PREFIXES:
        raise ValueError(f"unknown id prefix {prefix!r}")
    if len(chance) != RANDOM_BYTES:
        raise ValueError(f"an id needs {RANDOM_BYTES} bytes of chance, got {len(chance)}")
    from ulid import ULID  # here, since it imports pydantic and a client only reads ids

    stamp = int(now * 1000).to_bytes(6, "big")
    return f"{prefix}_{ULID.from_bytes(stamp + chance)}"


def short(full: str) -> str:
    """The form that lists show: the last `TAIL_CHARS` characters."""
    return full[-TAIL_CHARS:]


def is_tail(text: str) -> bool:
    """Whether the text can be an id or the tail of one (`run_01J...`, `01J...`, `9KX2`)."""
    head, _, tail = text.rpartition("_")
    return bool(tail) and (not head or head in PREFIXES) and len(tail) <= ULID_CHARS and set(tail.upper()) <= _ALPHABET
