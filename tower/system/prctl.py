"""The few things that a process asks of the kernel about itself and its descendants.

Which process asks for which, and why, is said where it is called.
"""

from __future__ import annotations

import _ctypes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

PR_SET_PDEATHSIG: Final = 1
PR_GET_DUMPABLE: Final = 3
PR_SET_DUMPABLE: Final = 4
PR_SET_CHILD_SUBREAPER: Final = 36
PR_SET_NO_NEW_PRIVS: Final = 38
"""Numbers of `linux/prctl.h`."""


def make_undumpable() -> None:
    """Close this process's environment and memory under `/proc` to others of the same user; lost by an exec."""
    _prctl(PR_SET_DUMPABLE, 0)


def allow_own_proc() -> None:
    """Give this process its own files under `/proc` back, which `make_undumpable` took: a namespace is mapped there."""
    _prctl(PR_SET_DUMPABLE, 1)


def is_dumpable() -> bool:
    """Whether another process of the same user can read this one's environment and memory."""
    return _prctl(PR_GET_DUMPABLE, 0) != 0


def become_subreaper() -> None:
    """Be the parent of every descendant whose own parent ends, in place of the system's first process."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def end_with_parent(number: int) -> None:
    """Be sent this signal when the thread that started this process ends, however it does; outlives an exec."""
    _prctl(PR_SET_PDEATHSIG, number)


def forbid_new_privileges() -> None:
    """Make set-uid programs powerless for this process and all its descendants, for good."""
    _prctl(PR_SET_NO_NEW_PRIVS, 1)


def _prctl(option: int, value: int) -> int:
    """Call the C library. `ctypes`, which wraps these calls, would add 3 ms to the start of each keeper."""
    address = _ctypes.dlsym(_ctypes.dlopen(None, 0), "prctl")  # type: ignore[arg-type]  # None: what is loaded
    result = int(_ctypes.call_function(address, (option, value, 0, 0, 0)))
    if result < 0:
        raise OSError(f"prctl({option}, {value}) failed")
    return result
